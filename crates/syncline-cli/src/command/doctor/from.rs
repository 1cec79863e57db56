//! `syncline doctor --from https://site`: whether pages of a site may call a running node.
//!
//! Sends what a browser sends before such a page's request (a preflight) and explains the answer as a browser would take it.
//! The answer may be another's than the node's: proxies like to answer preflights themselves.

use syncline_client::{Preflight, StatusCode};

use super::{Check, fail, ok};

/// The name of these checks.
const NAME: &str = "other site";

/// What the answer to a preflight with `method` means for pages of `origin`.
pub(super) fn explain(origin: &str, method: &str, answer: &Preflight) -> Check {
    let has = |list: &Option<String>, wanted: &str| {
        let words = list.as_deref().unwrap_or_default().split(',');
        words.map(str::trim).any(|word| word.eq_ignore_ascii_case(wanted))
    };
    let status = answer.status.as_u16();
    match &answer.allow_origin {
        None if answer.status == StatusCode::FORBIDDEN => fail(
            NAME,
            format!(
                "{origin} is listed by no key and no issuer: add it to the origins of one ({method}, 403)"
            ),
        ),
        None if answer.status == StatusCode::MISDIRECTED_REQUEST => fail(
            NAME,
            format!(
                "the node does not answer to this host: set PUBLIC_BASE_URL or allowed_hosts ({method}, 421)"
            ),
        ),
        None => fail(
            NAME,
            format!(
                "the answer to a preflight names no origin ({method}, {status}): a proxy before the node answers \
                 OPTIONS itself; let it pass them on"
            ),
        ),
        Some(named) if named == "*" => fail(
            NAME,
            format!(
                "the answer allows every origin ({method}, {status}): a proxy before the node wrote that, not the node"
            ),
        ),
        Some(named) if named != origin => fail(
            NAME,
            format!(
                "the answer is for {named}, not for {origin} ({method}, {status}): a proxy keeps answers; \
                 it has to look at Vary"
            ),
        ),
        Some(_) if !answer.status.is_success() => fail(
            NAME,
            format!("the preflight was answered with {status} ({method}): browsers want 200 or 204"),
        ),
        Some(_) if !has(&answer.allow_headers, "authorization") => fail(
            NAME,
            format!(
                "pages may not send a token ({method}): a proxy before the node removes it from the allowed headers"
            ),
        ),
        Some(_) if !has(&answer.allow_methods, method) => {
            fail(NAME, format!("pages may not {method}: the answer allows {:?}", answer.allow_methods))
        }
        Some(_) => ok(NAME, format!("pages of {origin} may {method} with a key or token that lists them")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    const SITE: &str = "https://site.example";

    fn answer(status: StatusCode, origin: &str, headers: &str) -> Preflight {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Preflight {
            status,
            allow_origin: text(origin),
            allow_methods: text("GET, POST"),
            allow_headers: text(headers),
        }
    }

    #[test]
    fn ac_14_each_answer_to_a_preflight_is_explained() {
        let good = "authorization, content-type";
        for (answer, state, said) in [
            (answer(StatusCode::NO_CONTENT, SITE, good), State::Ok, "may GET"),
            (answer(StatusCode::FORBIDDEN, "", ""), State::Fail, "listed by no key and no issuer"),
            (answer(StatusCode::MISDIRECTED_REQUEST, "", ""), State::Fail, "PUBLIC_BASE_URL"),
            (answer(StatusCode::OK, "", ""), State::Fail, "a proxy before the node answers"),
            (answer(StatusCode::OK, "*", good), State::Fail, "every origin"),
            (
                answer(StatusCode::OK, "https://other.example", good),
                State::Fail,
                "is for https://other.example",
            ),
            (answer(StatusCode::FOUND, SITE, good), State::Fail, "302"),
            (answer(StatusCode::OK, SITE, "content-type"), State::Fail, "may not send a token"),
        ] {
            let check = explain(SITE, "GET", &answer);
            assert!(check.state == state && check.finding.contains(said), "{answer:?}: {}", check.finding);
        }
        let put = explain(SITE, "PUT", &answer(StatusCode::NO_CONTENT, SITE, good));
        assert!(put.state == State::Fail && put.finding.contains("may not PUT"), "{}", put.finding);
    }
}
