//! What the browser packages say about themselves: their manifests, checked against their files, and what pages load of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use brotli::enc::BrotliEncoderParams;
use serde_json::Value;

use super::System;
use crate::workspace::Workspace;
use crate::{command, files};

/// Checks that the hand-written `package.json` in `scripts` describes a package of these files.
pub(super) fn check_manifest(scripts: &Path, files: &[PathBuf], version: &str) -> Result<()> {
    let place = scripts.join("package.json");
    let text = fs::read_to_string(&place).with_context(|| format!("cannot read {}", place.display()))?;
    let manifest = serde_json::from_str(&text).with_context(|| format!("{} is no JSON", place.display()))?;
    let files: Vec<String> = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    judge(&manifest, &files, version).with_context(|| format!("{} is wrong", place.display()))
}

/// Checks that each system loads its own module and no other.
pub(super) fn check_modules(folder: &Path, systems: &[System]) -> Result<()> {
    for system in systems {
        let module = system.module();
        let loaded = loads(folder, system.entry, system.without)?;
        let modules: Vec<&str> =
            loaded.iter().map(String::as_str).filter(|name| name.ends_with(".wasm")).collect();
        ensure!(
            modules == [module.as_str()],
            "{} loads {modules:?}, and should load {module} alone",
            system.entry
        );
    }
    Ok(())
}

fn judge(manifest: &Value, files: &[String], version: &str) -> Result<()> {
    let told = &manifest["version"];
    ensure!(told == version, "package.json says version {told}, and the workspace says \"{version}\"");
    let platform = &manifest["dependencies"]["syncline"];
    ensure!(
        platform.is_null() || platform == version,
        "package.json depends on version {platform} of syncline, which is made with it and has \"{version}\""
    );
    ensure!(manifest["exports"]["."].is_object(), "package.json exports nothing");
    let mut shipped = Vec::new();
    strings(&manifest["files"], &mut shipped);
    // npm adds a LICENSE by itself, but not two with a suffix.
    ensure!(shipped.contains(&"LICENSE-*"), "package.json does not list LICENSE-* among its files");
    let mut promised = Vec::new();
    for field in ["main", "types", "exports", "sideEffects"] {
        strings(&manifest[field], &mut promised);
    }
    for file in promised {
        let there = file.strip_prefix("./").is_some_and(|file| files.iter().any(|name| name == file));
        ensure!(there, "package.json names {file}, which is not in the package");
    }
    Ok(())
}

fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, found)),
        _ => {}
    }
}

/// Shortens the scripts in `folder`, private names included, and puts a source map beside each, so that errors can be traced
/// to the source.
pub(super) fn shorten(workspace: &Workspace, folder: &Path) -> Result<()> {
    // By way of npm, because the tool is a program or a script, as its installation went.
    let mut esbuild = workspace.npm(&workspace.web(), ["exec", "--offline", "--", "esbuild"]);
    let scripts =
        files::tree(folder)?.into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "js"));
    esbuild.args(scripts.map(|file| folder.join(file)));
    esbuild.args(["--minify", "--sourcemap", "--charset=utf8", "--log-level=warning", "--allow-overwrite"]);
    command::watch("esbuild", esbuild.arg(format!("--outdir={}", folder.display())))
}

/// The ways in which a script names a file to be loaded.
const LOADING: [&str; 4] = ["from", "import", "import(", "new URL("];

/// What a page loads that uses one system, brotli-compressed.
pub(super) struct Size {
    system: &'static str,
    scripts: usize,
    module: usize,
    budget: usize,
}

/// Follows each system's scripts from the one that pages import, and measures all that they load.
pub(super) fn measure(folder: &Path, systems: &[System]) -> Result<Vec<Size>> {
    let mut sizes = Vec::new();
    for system in systems {
        let mut size = Size { system: system.name, scripts: 0, module: 0, budget: system.budget_bytes };
        for name in loads(folder, system.entry, system.without)? {
            let part = if name.ends_with(".wasm") { &mut size.module } else { &mut size.scripts };
            *part += compressed(&folder.join(name))?;
        }
        sizes.push(size);
    }
    Ok(sizes)
}

/// `entry` in `folder` and all that it loads, except for `without` and what only that loads. Names are always written out as
/// `"./name"` or `"../name"`, right behind one of [`LOADING`].
pub(crate) fn loads(folder: &Path, entry: &str, without: &[&str]) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut next = vec![entry.to_owned()];
    while let Some(name) = next.pop() {
        if without.contains(&name.as_str()) {
            continue;
        }
        if name.ends_with(".js") && !found.contains(&name) {
            let text =
                fs::read_to_string(folder.join(&name)).with_context(|| format!("cannot read {name}"))?;
            let parts: Vec<&str> = text.split('"').collect();
            let named =
                parts.windows(2).filter(|pair| LOADING.iter().any(|word| pair[0].trim_end().ends_with(word)));
            next.extend(named.filter_map(|pair| resolve(&name, pair[1])));
        }
        found.insert(name);
    }
    Ok(found)
}

/// The file that `script` means by `name`, if that is a file beside or above it.
fn resolve(script: &str, name: &str) -> Option<String> {
    let mut place: Vec<&str> = script.split('/').collect();
    place.pop();
    let mut rest = name.strip_prefix("./").or_else(|| name.starts_with("../").then_some(name))?;
    while let Some(above) = rest.strip_prefix("../")
        && place.pop().is_some()
    {
        rest = above;
    }
    place.push(rest);
    Some(place.join("/"))
}

fn compressed(file: &Path) -> Result<usize> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut out = Vec::new();
    brotli::BrotliCompress(&mut bytes.as_slice(), &mut out, &BrotliEncoderParams::default())
        .with_context(|| format!("cannot compress {}", file.display()))?;
    Ok(out.len())
}

impl Size {
    fn total(&self) -> usize {
        self.scripts + self.module
    }

    pub(super) fn is_over(&self) -> bool {
        self.total() > self.budget
    }

    /// The system with its size against what is allowed.
    pub(super) fn phrase(&self) -> String {
        format!("{} {} of {}", self.system, kb(self.total()), kb(self.budget))
    }
}

pub(super) fn print(sizes: &[Size]) {
    let row = |cells: [String; 5]| {
        let [name, rest @ ..] = cells;
        println!("    {name:<24}{}", rest.map(|cell| format!("{cell:>10}")).concat());
    };
    row(["a page loads, in brotli", "scripts", "module", "together", "budget"].map(str::to_owned));
    for size in sizes {
        let [scripts, module, total, budget] = [size.scripts, size.module, size.total(), size.budget].map(kb);
        row([size.system.to_owned(), scripts, module, total, budget]);
    }
}

fn kb(bytes: usize) -> String {
    format!("{}.{} KB", bytes / 1000, bytes % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wasm::{BOOKSHELF, PLATFORM, Source};

    fn judged(files: &[&str], exports: &Value) -> Result<()> {
        let files: Vec<String> = files.iter().map(|&name| name.to_owned()).collect();
        let manifest =
            json!({ "version": "1.2.3", "sideEffects": false, "exports": exports, "files": ["LICENSE-*"] });
        judge(&manifest, &files, "1.2.3")
    }

    #[test]
    fn a_manifest_must_describe_the_package() {
        let entry = json!({ ".": { "types": "./a.d.ts", "default": "./a.js" } });
        judged(&["a.js", "a.d.ts", "a_bg.wasm"], &entry).unwrap();
        let told = |files: &[&str], exports| judged(files, exports).unwrap_err().to_string();
        assert_eq!(
            told(&["a.js", "a.wasm"], &entry),
            "package.json names ./a.d.ts, which is not in the package"
        );
        assert_eq!(told(&["a.wasm"], &Value::Null), "package.json exports nothing");
    }

    #[test]
    fn a_package_ships_its_licences() {
        let manifest = json!({ "version": "1.0.0", "exports": { ".": {} }, "files": ["*.js"] });
        let error = judge(&manifest, &["a.wasm".to_owned()], "1.0.0").unwrap_err();
        assert_eq!(error.to_string(), "package.json does not list LICENSE-* among its files");
    }

    #[test]
    fn a_package_depends_on_the_platform_that_is_made_with_it() {
        let of = |version: &str| {
            let manifest = json!({
                "version": "1.0.0",
                "dependencies": { "syncline": version },
                "exports": { ".": {} },
                "files": ["LICENSE-*"],
            });
            judge(&manifest, &[], "1.0.0")
        };
        of("1.0.0").unwrap();
        let error = of("0.9.0").unwrap_err().to_string();
        assert!(error.starts_with("package.json depends on version \"0.9.0\" of syncline"), "{error}");
    }

    #[test]
    fn a_manifest_of_another_version_is_refused() {
        let error = judge(&json!({ "version": "0.9.0" }), &["a.wasm".to_owned()], "1.0.0").unwrap_err();
        assert_eq!(error.to_string(), r#"package.json says version "0.9.0", and the workspace says "1.0.0""#);
    }

    fn system(source: &'static Source, name: &'static str, entry: &'static str) -> System {
        System { source, name, opt_level: "3", entry, without: &[], budget_bytes: 40 }
    }

    /// A package of two systems that share a script.
    fn two_systems(folder: &Path) -> [System; 2] {
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("errors.js", "export {}");
        write("a.js", "import \"./errors.js\";\nnew Worker(new URL(\"./a-worker.js\", import.meta.url));");
        write("a-worker.js", "import(\"./a.js\"); new URL(\"./syncline_a_bg.wasm\", import.meta.url);");
        write("b.js", "import \"./errors.js\"; new URL(\"./syncline_b_bg.wasm\", import.meta.url);");
        write("syncline_a_bg.wasm", &"a".repeat(50_000));
        write("syncline_b_bg.wasm", "b");
        write("a.d.ts", "types are not loaded");
        [system(&PLATFORM, "a", "a.js"), system(&PLATFORM, "b", "b.js")]
    }

    #[test]
    fn a_page_loads_what_its_system_needs_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let systems = two_systems(folder.path());
        let loaded: Vec<String> = loads(folder.path(), "a.js", &[]).unwrap().into_iter().collect();
        assert_eq!(loaded, ["a-worker.js", "a.js", "errors.js", "syncline_a_bg.wasm"]);
        let less = loads(folder.path(), "a.js", &["a-worker.js"]).unwrap();
        assert!(less.iter().eq(["a.js", "errors.js"]), "{less:?}");
        check_modules(folder.path(), &systems).unwrap();
        let sizes = measure(folder.path(), &systems).unwrap();
        assert!(sizes[0].module < 100, "repetition compresses well: {}", sizes[0].module);
        assert!(sizes[0].scripts > sizes[1].scripts && sizes[0].is_over());
        assert_eq!(sizes[0].phrase(), format!("a {} of 0.0 KB", kb(sizes[0].total())));
    }

    #[test]
    fn a_page_of_an_app_loads_its_own_scripts_and_those_of_the_platform_around_them() {
        let folder = tempfile::tempdir().unwrap();
        two_systems(folder.path());
        let own = folder.path().join("bookshelf");
        fs::create_dir(&own).unwrap();
        let entry = "import \"../errors.js\"; new URL(\"./syncline_c_bg.wasm\", import.meta.url);";
        fs::write(own.join("c.js"), entry).unwrap();
        fs::write(own.join("syncline_c_bg.wasm"), "c").unwrap();
        let systems = [system(&BOOKSHELF, "c", "bookshelf/c.js")];
        let loaded = loads(folder.path(), "bookshelf/c.js", &[]).unwrap();
        assert!(
            loaded.iter().eq(["bookshelf/c.js", "bookshelf/syncline_c_bg.wasm", "errors.js"]),
            "{loaded:?}"
        );
        check_modules(folder.path(), &systems).unwrap();
        fs::write(own.join("c.js"), "import \"../../outside.js\"").unwrap();
        let error = loads(folder.path(), "bookshelf/c.js", &[]).unwrap_err().to_string();
        assert_eq!(error, "cannot read ../outside.js");
    }

    #[test]
    fn a_system_that_loads_the_module_of_another_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let systems = two_systems(folder.path());
        fs::write(folder.path().join("errors.js"), "import \"./b.js\";").unwrap();
        let error = check_modules(folder.path(), &systems).unwrap_err().to_string();
        assert!(error.starts_with("a.js loads [\"syncline_a_bg.wasm\", \"syncline_b_bg.wasm\"]"), "{error}");
        fs::write(folder.path().join("errors.js"), "import \"./gone.js\";").unwrap();
        let error = check_modules(folder.path(), &systems).unwrap_err().to_string();
        assert_eq!(error, "cannot read gone.js");
    }
}
