//! The program `serversync`.

use std::process::ExitCode;

fn main() -> ExitCode {
    syncline_cli::serversync::main()
}
