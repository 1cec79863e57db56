//! The program `syncline`.

use std::process::ExitCode;

fn main() -> ExitCode {
    syncline_cli::syncline::main()
}
