//! The bench `door`: what it costs to find out who calls, by key and by token.
//!
//! README.md says what is measured and what is left out.

// Printing is what this program does.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use bench_figures::process;
use bench_figures::table::print;
use clap::Parser;
use serde_json::{Map, Value, json};
use syncline_node::access::{Algorithm, Credentials, KeyHash, Signer, mint, new_key};
use syncline_node::clock;
use syncline_node::config::{Config, Flags};

/// Checks of one turn.
const CHECKS: usize = 2_000;

/// The rows that have a budget (AC-15), in microseconds.
const BUDGETS_US: [(&str, f64); 3] =
    [("known token", 2.0), ("new HS256 token", 20.0), ("new ES256 token", 200.0)];

/// Measures what it costs to find out who calls.
#[derive(Parser)]
#[command(name = "cargo xtask bench door --")]
struct Arguments {
    /// How often each row has its turn; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=50))]
    rounds: u8,
}

/// A row: its name, and the bearers that are shown one after the other.
struct Row {
    name: &'static str,
    makes: Box<dyn Fn(usize) -> Vec<String>>,
    accepted: bool,
}

fn main() -> Result<()> {
    let rounds = usize::from(Arguments::parse().rounds);
    println!("load average before: {:.1}", process::load_average());
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/syncline-node/tests/keys");
    let (own, table) = key_tables();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("syncline.toml");
    std::fs::write(&file, format!("{table}{}", issuers(keys)))?;
    let flags = Flags { config: Some(file), ..Flags::default() };
    let config = Config::load(&flags, &|_| None, syncline_node::systems())?;
    let credentials = Credentials::new(&config.credentials);
    let rows = rows(Path::new(keys), own, &config)?;
    let mut taken: Vec<Vec<f64>> = vec![Vec::new(); rows.len() + 1];
    for round in 0..rounds {
        let sample = (rows[1].makes)(round).remove(0);
        taken[0].push(per_check_us(&vec![sample; CHECKS], |bearer| {
            black_box(KeyHash::of(bearer)) != KeyHash::of(b"")
        }));
        for (number, row) in rows.iter().enumerate() {
            let shown = (row.makes)(round);
            let wall = clock::wall();
            taken[number + 1].push(per_check_us(&shown, |bearer| {
                credentials.principal(bearer, wall).is_ok() == row.accepted
            }));
        }
    }
    report(&rows, taken)
}

/// The mean time of a check in microseconds, if all of them came out as they should.
fn per_check_us(shown: &[String], check: impl Fn(&[u8]) -> bool) -> f64 {
    let start = Instant::now();
    let right = shown.iter().filter(|bearer| check(bearer.as_bytes())).count();
    let taken = start.elapsed();
    assert_eq!(right, shown.len(), "a check came out otherwise");
    taken.as_secs_f64() * 1e6 / shown.len() as f64
}

fn report(rows: &[Row], taken: Vec<Vec<f64>>) -> Result<()> {
    let names = std::iter::once("ceiling").chain(rows.iter().map(|row| row.name));
    let (mut lines, mut figures) = (Vec::new(), Map::new());
    for (name, mut times) in names.zip(taken) {
        times.sort_by(f64::total_cmp);
        let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
        let budget = BUDGETS_US.iter().find(|(of, _)| *of == name).map(|(_, us)| *us);
        let judged = match budget {
            None => String::new(),
            Some(us) if median <= us => format!("{us:.0}, kept"),
            Some(us) => format!("{us:.0}, EXCEEDED"),
        };
        lines.push(vec![name.to_owned(), format!("{median:.2}"), format!("{slowest:.2}"), judged]);
        figures.insert(name.to_owned(), json!({ "us": median, "slowest_us": slowest, "budget_us": budget }));
    }
    println!(
        "One thread, no HTTP: from the text behind `Bearer ` to the caller and its grants, {CHECKS} checks a turn."
    );
    print("microseconds for one check", &["who calls", "median", "slowest turn", "budget"], &lines);
    if cfg!(debug_assertions) {
        println!("This build is not optimised: its figures say nothing about a budget.");
    }
    let figures = json!({ "machine": process::machine(), "check": figures });
    let path = std::env::var_os("BENCH_JSON").context("BENCH_JSON says where the figures go")?;
    std::fs::write(path, figures.to_string())?;
    Ok(())
}

/// A key, and the tables of it and of a hundred others.
fn key_tables() -> (String, String) {
    let (own, hash) = new_key(false);
    let others = (0..100).map(|number| (format!("other-{number}"), new_key(false).1));
    let tables = others.chain([("own".to_owned(), hash)]);
    let table = |(name, hash): (String, KeyHash)| {
        format!("[[keys]]\nname = {name:?}\nhash = \"{hash}\"\nmay = [\"state:a:read\", \"lock:*:see\"]\n")
    };
    (own.expose().to_owned(), tables.map(table).collect())
}

fn issuers(keys: &str) -> String {
    let issuer = |name: &str, alg: &str, key: String| {
        format!(
            "[[issuers]]\nname = {name:?}\nissuer = {name:?}\naudience = \"node\"\nalg = {alg:?}\nkeys = [{{ kid = \"1\", {key} }}]\n\
             may = [\"state:cart-{{sub}}:read,write\", \"lock:doc:*:hold,see\", \"queue:covers:add,read\"]\n"
        )
    };
    let public = |file: &str| format!("public_key_file = \"{keys}/{file}.public.pem\"");
    [
        issuer("hs", "HS256", format!("secret = {SECRET:?}")),
        issuer("es", "ES256", public("es256")),
        issuer("rs", "RS256", public("rs256")),
        issuer("ed", "EdDSA", public("eddsa")),
    ]
    .concat()
}

const SECRET: &str = "a-secret-of-an-issuer-of-32-bytes-or-more";

fn rows(keys: &Path, own: String, config: &Config) -> Result<Vec<Row>> {
    let private = |algorithm, file: &str| -> Result<Signer> {
        let path = keys.join(format!("{file}.private.pem"));
        let pem = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Signer::private(algorithm, &pem).map_err(anyhow::Error::msg)
    };
    let secret = || -> Result<Signer> {
        let issuer = config.credentials.issuers.iter().find(|issuer| issuer.name == "hs");
        let signer = issuer.and_then(|issuer| issuer.signer(clock::wall()));
        Ok(signer.context("the issuer has a secret")?.0)
    };
    let fresh = |name, iss: &'static str, algorithm, signer: Signer| Row {
        name,
        makes: Box::new(move |round| {
            (0..CHECKS).map(|n| token(iss, algorithm, &signer, round * CHECKS + n)).collect()
        }),
        accepted: true,
    };
    let known = secret()?;
    let forged = private(Algorithm::Es256, "es256")?;
    Ok(vec![
        Row { name: "key", makes: Box::new(move |_| vec![own.clone(); CHECKS]), accepted: true },
        Row {
            name: "known token",
            makes: Box::new(move |_| vec![token("hs", Algorithm::Hs256, &known, usize::MAX); CHECKS]),
            accepted: true,
        },
        fresh("new HS256 token", "hs", Algorithm::Hs256, secret()?),
        fresh("new ES256 token", "es", Algorithm::Es256, private(Algorithm::Es256, "es256")?),
        fresh("new RS256 token", "rs", Algorithm::Rs256, private(Algorithm::Rs256, "rs256")?),
        fresh("new EdDSA token", "ed", Algorithm::EdDsa, private(Algorithm::EdDsa, "eddsa")?),
        Row {
            name: "forged token",
            makes: Box::new(move |round| {
                let genuine = |n| token("es", Algorithm::Es256, &forged, round * CHECKS + n);
                let swapped = |n: usize| {
                    let (one, other) = (genuine(n), genuine(n + CHECKS));
                    let message = one.rsplit_once('.').map_or("", |(message, _)| message);
                    format!("{message}.{}", other.rsplit_once('.').map_or("", |(_, signature)| signature))
                };
                (0..CHECKS).map(swapped).collect()
            }),
            accepted: false,
        },
    ])
}

fn token(iss: &str, algorithm: Algorithm, signer: &Signer, number: usize) -> String {
    let now = clock::wall().as_ms() / 1_000;
    let claims = json!({ "iss": iss, "aud": "node", "sub": format!("person-{number}"), "iat": now, "exp": now + 3_600 });
    let Value::Object(claims) = claims else { return String::new() };
    mint(algorithm, signer, Some("1"), &claims).unwrap_or_default()
}
