//! Every operation needs what its description says, and nothing less.

use std::collections::BTreeSet;

use axum::body::Body;
use http::{Request, StatusCode, header};

use super::{INVENTED, Names, Operation, api_description, operations};
use crate::{NodeBuilder, RouterNode, TestKey};

/// Where an operation says which grant it needs.
const GRANT: &str = "x-syncline-grant";

/// The owner's token of the nodes here.
const TOKEN: &str = "the-owner-of-the-walk";

/// Checks of every operation of such a node: without a credential it answers 401, to a key that may nothing 403, and to a key
/// with exactly the grant of its description what the description says. Operations without a grant refuse a key that has all the others.
/// `builder` makes a node of a file, to which the keys are added at the end. Returns how many operations there are, and how
/// many of them no grant allows.
pub async fn every_route_needs_its_grant(
    builder: impl Fn(&str) -> NodeBuilder,
    file: &str,
    names: Names<'_>,
) -> (usize, usize) {
    let described = operations(&api_description(&builder(file).router().await, None).await);
    let all: BTreeSet<String> =
        described.iter().filter_map(|one| needed(one, names, "everything").grant()).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let everything = TestKey::new("everything", &all);
    let nothing = TestKey::new("nothing", &[]);
    let keys: Vec<Option<TestKey>> = described
        .iter()
        .enumerate()
        .map(|(number, operation)| {
            let name = format!("key-{number}");
            match needed(operation, names, &name) {
                Needed::Owner => None,
                // Whoever may read something may hear of it.
                Needed::Something => Some(TestKey::new(&name, &all)),
                Needed::Grant(grant) => Some(TestKey::new(&name, &[&grant])),
            }
        })
        .collect();
    let tables = [&everything, &nothing].into_iter().chain(keys.iter().flatten()).map(TestKey::table);
    let file = format!("token = {TOKEN:?}\n{file}\n{}", tables.collect::<String>());
    let node = builder(&file).router().await;
    let mut owners = 0;
    for (operation, key) in described.iter().zip(&keys) {
        let (method, path) = (&operation.method, &operation.path);
        let asked = async |key: Option<&TestKey>| ask(&node, operation, names, key).await;
        if operation.about["security"].is_null() {
            let status = asked(None).await;
            assert!(!refused(status), "{method} {path} is open: {status}");
            continue;
        }
        assert_eq!(asked(None).await, StatusCode::UNAUTHORIZED, "{method} {path} without a credential");
        assert_eq!(asked(Some(&nothing)).await, StatusCode::FORBIDDEN, "{method} {path} with nothing");
        match key {
            None => {
                owners += 1;
                assert_eq!(asked(Some(&everything)).await, StatusCode::FORBIDDEN, "{method} {path}");
            }
            Some(key) => {
                let status = asked(Some(key)).await;
                assert!(!refused(status), "{method} {path} with {}: {status}", operation.about[GRANT]);
                // Errors that every operation may answer with are described once, under `default`.
                let responses = &operation.about["responses"];
                let documented = !responses[status.as_str()].is_null()
                    || status.is_client_error() && !responses["default"].is_null();
                assert!(
                    documented,
                    "{method} {path} with {} answers {status}: {responses}",
                    operation.about[GRANT]
                );
            }
        }
        for status in ["401", "403"] {
            let described = &operation.about["responses"][status]["description"];
            assert!(described.is_string(), "{method} {path} does not describe {status}");
        }
    }
    (described.len(), owners)
}

fn refused(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// What an operation needs.
enum Needed {
    /// The owner: no grant is enough.
    Owner,
    /// Any grant: the answer is cut to what the caller may read.
    Something,
    Grant(String),
}

impl Needed {
    fn grant(self) -> Option<String> {
        match self {
            Needed::Grant(grant) => Some(grant),
            Needed::Owner | Needed::Something => None,
        }
    }
}

/// What an operation needs of a key of this name.
fn needed(operation: &Operation, names: Names<'_>, key: &str) -> Needed {
    let (path, described) = (&operation.path, operation.about[GRANT].as_str());
    match described {
        None => {
            assert!(operation.about["security"].is_null(), "{path} does not say who may call it");
            Needed::Something
        }
        Some("owner") => Needed::Owner,
        Some("any") => Needed::Something,
        Some(grant) => {
            let mut grant = grant.replace("{caller}", key);
            for variable in operation.parameters("path") {
                let known = names.iter().find(|(known, _)| *known == variable);
                grant = grant.replace(&format!("{{{variable}}}"), known.map_or(INVENTED, |(_, name)| name));
            }
            assert!(!grant.contains('{'), "{path}: {grant} names no variable of the path");
            Needed::Grant(grant)
        }
    }
}

/// The status of an operation's answer to such a caller.
async fn ask(
    node: &RouterNode,
    operation: &Operation,
    names: Names<'_>,
    key: Option<&TestKey>,
) -> StatusCode {
    let request = Request::builder().method(operation.method.as_str()).uri(operation.address(names));
    let request = request.header(header::CONTENT_TYPE, "application/json").body(Body::from("{}")).unwrap();
    let request = match key {
        Some(key) => key.shown_by(request),
        None => request,
    };
    node.respond(request).await.status()
}
