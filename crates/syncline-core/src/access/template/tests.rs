//! Templates in tables, and two subjects that try to meet.

use proptest::prelude::*;

use super::super::Need;
use super::*;

/// No hash, but what the tests need of one: short values that differ give letters that differ.
fn padded(value: &[u8]) -> [u8; 32] {
    std::array::from_fn(|at| value.get(at).copied().unwrap_or(0))
}

fn template(text: &str) -> GrantTemplate {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn filled(text: &str, sub: &str) -> Option<String> {
    template(text).fill(|claim| (claim == "sub").then_some(sub), padded).map(|grant| grant.to_string())
}

#[test]
fn ac_02_claims_fill_their_places() {
    assert_eq!(filled("state:cart-{sub}:read,write", "7").unwrap(), "state:cart-7:read,write");
    assert_eq!(
        filled("lock:{sub}:doc:*:hold", "ann@site.example").unwrap(),
        "lock:ann@site.example:doc:*:hold"
    );
    assert_eq!(filled("kv:a b/日:read", "7").unwrap(), "kv:a b/日:read");
    assert_eq!(filled("state:{tenant}.{sub}:read", "7"), None, "a claim is missing");
    let both = |claim: &str| match claim {
        "sub" => Some("7"),
        "https://shop.example/tenant" => Some("north"),
        _ => None,
    };
    let tenants = template("state:{https://shop.example/tenant}.{sub}:read");
    assert_eq!(tenants.fill(both, padded).unwrap().to_string(), "state:north.7:read");
}

#[test]
fn ac_02_a_value_that_could_reach_elsewhere_grants_nothing() {
    for value in ["", "*", "a*", "a b", "a/b", "日", "a\n", "a\0", "{sub}", "a+b", "auth0|7", "a,b"] {
        assert_eq!(filled("state:cart-{sub}:read", value), None, "{value:?}");
    }
    for (text, value) in [
        ("state:{sub}.*:read", "a.b"),
        ("state:{sub}.cart:read", "a.b"),
        ("lock:{sub}:doc:hold", "a:b"),
        ("state:{sub}-{sub}:read", "a-b"),
    ] {
        assert_eq!(filled(text, value), None, "{text} {value}");
        assert!(filled(text, "ab").is_some(), "{text}");
    }
    assert_eq!(filled("state:cart-{sub}:read", &"a".repeat(GRANT_MAX_BYTES)), None);
}

#[test]
fn ac_02_a_hashed_value_is_26_letters_of_base32() {
    let hash: [u8; 32] = std::array::from_fn(|at| at as u8 * 7 + 1);
    let grant = template("state:cart-{sub#}:read").fill(|_| Some("auth0|7"), |_| hash).unwrap();
    assert_eq!(grant.to_string(), format!("state:cart-{}:read", base32(&hash)));
    assert_eq!(base32(&hash).len(), HASH_LETTERS);
    assert_eq!(base32(&[0; 32]), "a".repeat(26));
    assert_eq!(base32(&[255; 32]), "7".repeat(26));
    // RFC 4648: "foobar" is MZXW6YTBOI in base32.
    let mut foobar = [0; 32];
    foobar[..6].copy_from_slice(b"foobar");
    assert!(base32(&foobar).starts_with("mzxw6ytbo"));
    assert_eq!(filled("state:cart-{sub#}:read", ""), None);
    assert!(filled("state:{sub#}*:read", "auth0|7").is_some(), "a hash ends by itself");
}

#[test]
fn ac_02_what_is_no_grant_is_refused_with_what_is_wrong() {
    for (text, said) in [
        ("", "expected system:name:verbs"),
        ("state", "expected system:name:verbs"),
        ("state:read", "expected system:name:verbs"),
        ("State:a:read", "a system is a word"),
        (":a:read", "a system is a word"),
        ("state::read", "the name is missing"),
        ("state:a:", "verbs are words"),
        ("state:a:read,", "verbs are words"),
        ("state:a:*", "verbs are words"),
        ("state:a:read, write", "verbs are words"),
        ("state:*a:read", "a * may only end"),
        ("state:a**:read", "a * may only end"),
        ("state:a\tb:read", "control character"),
        ("state:{:read", "a place for a claim"),
        ("state:}:read", "a place for a claim"),
        ("state:{}:read", "a place for a claim"),
        ("state:{#}:read", "a place for a claim"),
        ("state:{a b}:read", "a place for a claim"),
        ("state:{{sub}}:read", "a place for a claim"),
        ("state:cart-{sub}*:read", "what follows {sub} does not end its value"),
        ("state:{tenant}{sub}:read", "what follows {tenant} does not end its value"),
        ("state:{tenant}{sub#}:read", "what follows {tenant} does not end its value"),
    ] {
        let error = text.parse::<GrantTemplate>().unwrap_err().to_string();
        assert!(error.contains(said), "{text:?}: {error}");
    }
    let long = format!("state:{}:read", "a".repeat(GRANT_MAX_BYTES));
    assert!(long.parse::<GrantTemplate>().unwrap_err().to_string().contains("at most 1024 bytes"));
    let unfilled = "state:cart-{sub}:read".parse::<Grant>().unwrap_err().to_string();
    assert!(unfilled.contains("{sub} is filled from the claims of a token"), "{unfilled}");
}

/// The one template is harmless and so is the other; together they gave `a.b` a name that belongs to `a`.
#[test]
fn ac_02_templates_of_one_issuer_share_their_separators() {
    let ceiling: Ceiling = ["state:cart-{sub}:read", "state:cart-{sub}.*:read", "lock:shop:see"]
        .map(template)
        .into_iter()
        .collect();
    let of = |sub: &'static str| ceiling.fill(move |_| Some(sub), padded);
    assert_eq!(of("a").iter().count(), 3);
    assert_eq!(of("a.b").iter().map(Grant::to_string).collect::<Vec<_>>(), ["lock:shop:see"]);
}

fn some_template() -> impl Strategy<Value = GrantTemplate> {
    let piece = prop_oneof![
        "[ab.-]{1,2}",
        Just("{sub}".to_owned()),
        Just("{sub#}".to_owned()),
        Just("{t}".to_owned())
    ];
    let text = (prop::collection::vec(piece, 1..5), prop::bool::ANY)
        .prop_map(|(pieces, star)| format!("kv:{}{}:read", pieces.concat(), if star { "*" } else { "" }));
    text.prop_filter_map("only what the parser takes", |text| text.parse().ok())
}

fn some_value() -> impl Strategy<Value = String> {
    prop_oneof!["[ab.-]{0,4}", "[ab.|*]{1,3}"]
}

/// A name that the grant allows, near its edge.
fn reached(grant: &Grant, more: &str) -> String {
    if grant.is_prefix { format!("{}{more}", grant.name) } else { grant.name.clone() }
}

/// `SYNCLINE_SEEDS=2000`, which `cargo xtask soak` sets, makes 100,000.
fn cases() -> u32 {
    std::env::var("SYNCLINE_SEEDS").map_or(10_000, |seeds| seeds.parse::<u32>().unwrap().saturating_mul(50))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_global_rejects: 10_000_000, max_local_rejects: 10_000_000, ..ProptestConfig::default() })]

    #[test]
    fn ac_02_two_subjects_never_reach_each_others_names(
        template in some_template(), subs in [some_value(), some_value()], tenants in [some_value(), some_value()],
        more in "[ab.-]{0,4}",
    ) {
        let by_subject = template.name.iter().any(|piece| matches!(piece, Piece::Claim(of) | Piece::Hash(of) if of == "sub"));
        prop_assume!(by_subject && subs[0] != subs[1]);
        let grant = |who: usize| {
            let claim = |claim: &str| match claim {
                "sub" => Some(subs[who].as_str()),
                "t" => Some(tenants[who].as_str()),
                _ => None,
            };
            template.fill(claim, padded)
        };
        if let (Some(mine), Some(theirs)) = (grant(0), grant(1)) {
            let theirs: Grants = [theirs].into_iter().collect();
            let name = reached(&mine, &more);
            let need = Need { system: "kv", verb: "read", name: Some(&name) };
            prop_assert!(!theirs.allow(need), "{template}: {name} is reached by {subs:?} of {tenants:?}");
            prop_assert!([mine].into_iter().collect::<Grants>().narrow(&theirs).is_empty());
        }
    }

    #[test]
    fn ac_02_a_template_is_read_as_it_is_written(template in some_template()) {
        prop_assert_eq!(template.to_string().parse::<GrantTemplate>().unwrap(), template);
    }

    #[test]
    fn ac_02_a_filled_grant_is_read_as_it_is_written(template in some_template(), sub in some_value()) {
        if let Some(grant) = template.fill(|_| Some(sub.as_str()), padded) {
            prop_assert_eq!(grant.to_string().parse::<Grant>().unwrap(), grant);
        }
    }

    #[test]
    fn ac_02_any_text_is_a_grant_or_refused(text in "\\PC{0,40}") {
        if let Ok(template) = text.parse::<GrantTemplate>() {
            prop_assert_eq!(template.to_string().parse::<GrantTemplate>().unwrap(), template);
        }
    }
}
