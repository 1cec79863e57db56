//! What the browser package says about itself: its manifest, checked against its files, and its size.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use brotli::enc::BrotliEncoderParams;
use serde_json::Value;

use crate::files;

/// Checks that the hand-written `package.json` in `folder` describes what is there.
pub(super) fn check(folder: &Path, version: &str) -> Result<()> {
    let text =
        fs::read_to_string(folder.join("package.json")).context("the browser package has no package.json")?;
    let manifest = serde_json::from_str(&text).context("the browser package's package.json is no JSON")?;
    let files: Vec<String> =
        files::tree(folder)?.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    judge(&manifest, &files, version)
}

fn judge(manifest: &Value, files: &[String], version: &str) -> Result<()> {
    let modules = files.iter().filter(|file| file.ends_with(".wasm")).count();
    ensure!(
        modules == 1,
        "the browser package holds {modules} WebAssembly modules, and must hold exactly one"
    );
    let told = &manifest["version"];
    ensure!(told == version, "package.json says version {told}, and the workspace says \"{version}\"");
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

/// The bytes of each file that a page loads.
pub(crate) struct Size {
    files: Vec<FileSize>,
}

struct FileSize {
    name: String,
    raw: usize,
    brotli: usize,
}

/// Measures the modules and scripts in `folder`.
pub(super) fn measure(folder: &Path) -> Result<Size> {
    let mut files = Vec::new();
    for file in files::tree(folder)? {
        let name = file.to_string_lossy().into_owned();
        if !(name.ends_with(".js") || name.ends_with(".wasm")) {
            continue;
        }
        let bytes = fs::read(folder.join(&file)).with_context(|| format!("cannot read {name}"))?;
        let mut compressed = Vec::new();
        brotli::BrotliCompress(&mut bytes.as_slice(), &mut compressed, &BrotliEncoderParams::default())
            .with_context(|| format!("cannot compress {name}"))?;
        files.push(FileSize { name, raw: bytes.len(), brotli: compressed.len() });
    }
    Ok(Size { files })
}

impl Size {
    pub(crate) fn brotli(&self) -> usize {
        self.files.iter().map(|file| file.brotli).sum()
    }

    /// The total against what is allowed, in one phrase.
    pub(super) fn against(&self, budget: usize) -> String {
        let raw: usize = self.files.iter().map(|file| file.raw).sum();
        let brotli = self.brotli();
        let share = brotli * 100 / budget;
        format!("{} raw, {} brotli, {share} % of the {} budget", kb(raw), kb(brotli), kb(budget))
    }

    pub(super) fn print(&self) {
        println!("    {:<28} {:>10} {:>10}", "what a page loads", "raw", "brotli");
        for file in &self.files {
            println!("    {:<28} {:>10} {:>10}", file.name, kb(file.raw), kb(file.brotli));
        }
    }
}

fn kb(bytes: usize) -> String {
    format!("{}.{} KB", bytes / 1000, bytes % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        assert!(told(&["a.wasm", "b.wasm"], &entry).contains("holds 2 WebAssembly modules"));
        assert!(told(&["a.js"], &entry).contains("holds 0 WebAssembly modules"));
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
    fn a_manifest_of_another_version_is_refused() {
        let error = judge(&json!({ "version": "0.9.0" }), &["a.wasm".to_owned()], "1.0.0").unwrap_err();
        assert_eq!(error.to_string(), r#"package.json says version "0.9.0", and the workspace says "1.0.0""#);
    }

    #[test]
    fn the_size_is_that_of_scripts_and_modules_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.js"), "x".repeat(50_000)).unwrap();
        fs::write(folder.path().join("a.wasm"), [7; 1_000]).unwrap();
        fs::write(folder.path().join("a.d.ts"), "y".repeat(9_000)).unwrap();
        let size = measure(folder.path()).unwrap();
        assert_eq!(size.files.len(), 2);
        assert!(size.brotli() < 200, "repetition compresses well: {}", size.brotli());
        assert!(size.against(40_000).starts_with("51.0 KB raw, 0.0 KB brotli, 0 % of the 40.0 KB budget"));
    }
}
