//! `[[keys]]` and `[[issuers]]`: what is read, what is refused with its place, and what is never shown.

use super::*;
use crate::access::{Algorithm, KeySource};

const HASH: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const CANARY: &str = "canary-secret-of-more-than-thirty-two-bytes";

fn issuer(lines: &str) -> String {
    format!(
        "[[issuers]]\nname = \"shop\"\nissuer = \"https://shop.example\"\naudience = \"https://node.example\"\n\
         may = [\"state:cart-{{sub}}:read,write\"]\n{lines}\n"
    )
}

/// The only problem of a file, without its place.
fn problem(file: &str) -> String {
    let problems = problems(file);
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].splitn(3, ':').nth(2).unwrap().trim().to_owned()
}

#[test]
fn ac_04_keys_are_read_and_printed() {
    let file = format!(
        "[[keys]]\nname = \"box-7\"\nhash = \"{HASH}\"\nmay = [\"ingest:box-7:send\"]\n\
         [[keys]]\nname = \"menu\"\nhash = \"{}\"\nmay = [\"state:menu:read\"]\npublic = true\n\
         origins = [\"HTTPS://Shop.Example:443\"]\n",
        HASH.replace("e3", "e4")
    );
    let config = load(&file).unwrap();
    let [key, menu] = config.credentials.keys.as_slice() else { panic!("{config:?}") };
    assert_eq!((key.name.as_str(), key.hash.to_string().as_str(), key.public), ("box-7", HASH, false));
    assert_eq!((menu.public, menu.origins.as_slice()), (true, &["https://shop.example".to_owned()][..]));
    let printed = config.to_string();
    assert!(printed.contains("may = [\"ingest:box-7:send\"]"), "{printed}");
    assert_eq!(load(&printed).unwrap().credentials.keys, config.credentials.keys);
}

#[test]
fn ac_04_each_mistake_in_a_key_is_named_with_its_place() {
    let key =
        |lines: &str| format!("[[keys]]\nname = \"a\"\nhash = \"{HASH}\"\nmay = [\"kv:*:read\"]\n{lines}");
    let file = "[[keys]]\nname = \"a b\"\nhash = \"slk_canary\"\nmay = [\"kv:read\", \"state:{sub}:read\"]\n";
    let found = problems(file);
    assert_eq!(found.len(), 4, "{found:?}");
    for (problem, said) in found.iter().zip([
        "2:8: keys[0].name: a name has 1 to 64 letters",
        "3:8: keys[0].hash: expected sha256:",
        "4:8: keys[0].may[0]: expected system:name:verbs",
        "4:19: keys[0].may[1]: {sub} is filled from the claims of a token",
    ]) {
        assert!(problem.starts_with(said) && !problem.contains("canary"), "{problem}");
    }
    for (file, said) in [
        (key("public = true\norigins = [\"https://a.example\"]"), "a publishable key may have nothing of kv"),
        (key("orgins = []"), "unknown key; did you mean `origins`?"),
        (key("origins = [\"*\"]"), "expected an origin"),
        (format!("{}{}", key(""), key("").replace("e3", "e4")), "\"a\" is taken"),
        (format!("{}{}", key(""), key("").replace("\"a\"", "\"b\"")), "this is the key of \"a\""),
        (key("").replace("\"a\"", "\"owner\""), "\"owner\" is taken"),
        (key("").replace("\"kv:*:read\"", &"\"kv:a:read\",".repeat(101)), "at most 100 grants, found 101"),
        (key("").replace("may = [\"kv:*:read\"]\n", ""), "missing, expected a list of grants"),
    ] {
        let problem = problem(&file);
        assert!(problem.contains(said), "{problem}");
    }
    let public = |lines: &str| key(lines).replace("kv:*", "state:*");
    assert!(problem(&public("public = true")).contains("missing, expected the origins"));
    assert!(problem(&public("public = true\norigins = []")).contains("at least one origin"));
}

#[test]
fn ac_05_issuers_are_read_and_their_secrets_shown_to_nobody() {
    let secret = written(&format!("{CANARY}-in-a-file\n"));
    let path = secret.path().display();
    let lines = format!(
        "keys = [{{ kid = \"2026-10\", secret_file = \"{path}\" }}, \
         {{ kid = \"2026-04\", secret = \"{CANARY}\", until = \"2026-11-01\" }}]\nmax_age_sec = 600"
    );
    let config = load(&issuer(&lines)).unwrap();
    let [shop] = config.credentials.issuers.as_slice() else { panic!("{config:?}") };
    assert_eq!((shop.algorithm, shop.max_age.as_secs()), (Algorithm::Hs256, 600));
    let KeySource::Listed(keys) = &shop.keys else { panic!("{shop:?}") };
    assert_eq!(keys[0].kid.as_deref(), Some("2026-10"));
    assert_eq!(keys[1].until.unwrap().as_ms(), 1_793_491_200_000);
    for shown in [config.to_string(), format!("{config:?}")] {
        assert!(!shown.contains("canary"), "{shown}");
    }
    assert!(config.to_string().contains("until = \"2026-11-01T00:00:00Z\""), "{config}");
    // As it is in the file, without the end of the line.
    assert!(config.secrets().contains(&format!("{CANARY}-in-a-file")));
    assert!(config.secrets().contains(&CANARY.to_owned()));
}

#[test]
fn ac_05_public_keys_are_read_from_a_file_or_in_place_or_fetched() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keys");
    for (alg, name) in [("ES256", "es256"), ("RS256", "rs256"), ("EdDSA", "eddsa")] {
        let file = format!("{folder}/{name}.public.pem");
        let pem = std::fs::read_to_string(&file).unwrap();
        for key in
            [format!("public_key_file = \"{file}\""), format!("public_key = {}", toml::Value::from(pem))]
        {
            let config = load(&issuer(&format!("alg = \"{alg}\"\nkeys = [{{ {key} }}]"))).unwrap();
            assert_eq!(config.credentials.issuers[0].algorithm.as_str(), alg);
            load(&config.to_string()).unwrap();
        }
    }
    for url in
        ["https://id.example/keys", "http://127.0.0.1:9/keys", "http://localhost/keys", "http://[::1]/keys"]
    {
        let config = load(&issuer(&format!("alg = \"ES256\"\njwks_url = \"{url}\""))).unwrap();
        assert!(config.to_string().contains(url), "{config}");
    }
}

#[test]
fn ac_05_each_mistake_in_an_issuer_is_named() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keys");
    let secret = format!("keys = [{{ kid = \"1\", secret = \"{CANARY}\" }}]");
    for (lines, said) in [
        ("".to_owned(), "missing, expected keys = "),
        ("keys = []".to_owned(), "1 to 16 keys, found 0"),
        ("keys = [{ kid = \"1\" }]".to_owned(), "missing, expected secret or secret_file"),
        ("keys = [{ secret = \"canary\" }]".to_owned(), "at least 32 bytes, found 6"),
        ("keys = [{ secret_file = \"/nonexistent\" }]".to_owned(), "cannot read /nonexistent"),
        (format!("keys = [{{ secret = \"{CANARY}\", secret_file = \"/x\" }}]"), "found both"),
        (
            "keys = [{ public_key = \"canary\" }]".to_owned(),
            "expected secret or secret_file, as alg is HS256",
        ),
        (format!("alg = \"ES256\"\n{secret}"), "expected public_key or public_key_file"),
        (format!("alg = \"HS512\"\n{secret}"), "expected one of HS256, ES256, RS256, EdDSA"),
        (
            format!("alg = \"ES256\"\nkeys = [{{ public_key_file = \"{folder}/rs256.public.pem\" }}]"),
            "a key on the curve P-256",
        ),
        (
            format!("alg = \"EdDSA\"\nkeys = [{{ public_key_file = \"{folder}/eddsa.private.pem\" }}]"),
            "a private key",
        ),
        (
            format!("keys = [{{ secret_file = \"{folder}/rs256.public.pem\" }}]"),
            "everybody may know a public key",
        ),
        (secret.replace(" }]", ", until = \"soon\" }]"), "expected a day such as 2026-11-01"),
        (secret.replace("kid = \"1\"", "kid = \"\""), "expected 1 to 255 bytes"),
        (format!("{secret}\njwks_url = \"https://id.example/keys\""), "keys or a jwks_url, not both"),
        ("jwks_url = \"https://id.example/keys\"".to_owned(), "a published key is no secret"),
        ("alg = \"ES256\"\njwks_url = \"http://id.example/keys\"".to_owned(), "expected https"),
        ("alg = \"ES256\"\njwks_url = \"https://a:canary@id.example/\"".to_owned(), "without credentials"),
        (format!("{secret}\nmax_age_sec = 1"), "from 60 to 2592000"),
        (secret.replace(" }]", ", kidd = \"1\" }]"), "unknown key; did you mean `kid`?"),
    ] {
        let problem = problem(&issuer(&lines));
        assert!(problem.contains(said) && !problem.contains("canary"), "{lines}: {problem}");
    }
    let twice =
        secret.replace("}]", "}, { kid = \"1\", secret = \"another-secret-of-thirty-two-bytes-and-more\" }]");
    assert!(problem(&issuer(&twice)).contains("another key of this issuer has the same"));
    let open = issuer(&secret).replace("cart-{sub}", "cart-{sub}*");
    assert!(problem(&open).contains("put a separator behind it"));
    let other = issuer(&secret).replace("\"shop\"", "\"mall\"");
    assert!(problem(&format!("{}{other}", issuer(&secret))).contains("\"shop\" has the same"));
}
