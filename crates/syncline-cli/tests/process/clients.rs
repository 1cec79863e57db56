//! Clients that generators make from a node's description, compiled with strict settings and used for every system.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use syncline_testing::process::Node;
use syncline_testing::{Reply, StubApi};

const TOKEN: &str = "a-token-for-generated-clients";

/// A node with something of every system, its description, and a folder to generate in.
struct Workshop {
    node: Node,
    folder: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Workshop {
    fn open() -> Workshop {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let words = runtime.block_on(StubApi::start(|path, _| Reply::new(200, path)));
        let queue = words.queue("words", "interval_ms = 1");
        let node = Node::start(&format!(
            "token = \"{TOKEN}\"\n{queue}\
             [[entities]]\nname = \"note\"\nsettings = true\n\
             [[jobs]]\nname = \"report\"\ncron = \"0 0 1 1 *\"\nrun = {{ command = [\"true\"] }}\n"
        ));
        let authorization = format!("Bearer {TOKEN}");
        let (status, description) =
            node.ask("GET", "/openapi.json", &[("authorization", &authorization)], "");
        assert_eq!(status, 200, "{description}");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("openapi.json"), description).unwrap();
        Workshop { node, folder, _runtime: runtime }
    }

    /// Brings a file of `web/clients` here.
    fn bring(&self, name: &str) {
        symlink(clients().join(name), self.folder.path().join(name)).unwrap();
    }

    /// Copies one, for tools that follow links to where a file really is.
    fn copy(&self, name: &str) {
        std::fs::copy(clients().join(name), self.folder.path().join(name)).unwrap();
    }

    /// Runs a program here to its end, and returns what it said.
    fn run(&self, program: &Path, arguments: &[&str]) -> String {
        let path = format!("{}:{}", python().join("bin").display(), std::env::var("PATH").unwrap());
        let done = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("PATH", path)
            .output()
            .unwrap_or_else(|error| {
                panic!("{}: {error}; `cargo xtask setup` installs it", program.display())
            });
        let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{} {arguments:?}: {said}\n{}", program.display(), self.node.log());
        said.into_owned()
    }
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/clients").canonicalize().unwrap()
}

/// The Python environment of the tests.
fn python() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("moto")
}

/// No client could be generated from the description, and `kv` could not be called with types at all.
#[test]
fn cn_20_a_generated_typescript_client_compiles_strictly_and_uses_every_system() {
    let shop = Workshop::open();
    shop.copy("use.ts");
    shop.copy("tsconfig.json");
    shop.copy("package.json");
    shop.bring("node_modules");
    let node = Path::new("node");
    shop.run(node, &["node_modules/openapi-typescript/bin/cli.js", "openapi.json", "--output", "api.d.ts"]);
    shop.run(node, &["node_modules/typescript/bin/tsc", "--project", "tsconfig.json"]);
    let said = shop.run(node, &["use.js", &shop.node.url(), TOKEN]);
    assert!(said.contains("every system answered"), "{said}");
}

#[test]
fn cn_20_a_generated_python_client_is_typed_strictly_and_uses_every_system() {
    let shop = Workshop::open();
    shop.copy("use.py");
    let python = python().join("bin/python");
    let generate = ["-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none"];
    shop.run(&python, &[&generate[..], &["--output-path", "syncline_client", "--fail-on-warning"]].concat());
    // The generator's own `client.py` is not strict; what it makes of the description is.
    let checked = ["use.py", "syncline_client/api", "syncline_client/models"];
    shop.run(
        &python,
        &[&["-m", "mypy", "--strict", "--no-warn-redundant-casts", "--follow-imports=silent"][..], &checked]
            .concat(),
    );
    let said = shop.run(&python, &["use.py", &shop.node.url(), TOKEN]);
    assert!(said.contains("every system answered"), "{said}");
}
