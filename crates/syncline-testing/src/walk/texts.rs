//! Texts that a database may be unable to hold: zeros, and halves of surrogate pairs.

use axum::body::Body;
use http::{Request, header};

use super::{Names, Operation, api_description, fill, operations};
use crate::RouterNode;

/// Bodies with nothing in them, and with texts that are no text everywhere.
const BODIES: [&str; 5] = ["", "{}", r#"{"a":"\u0000"}"#, r#"{"a":"\ud800"}"#, r#"{"\u0000":1}"#];

/// Checks that no text in a path, a query or a body makes an operation fail: the caller is told, and the node is not blamed.
/// Returns how many requests were made.
pub async fn no_text_is_a_failure(node: &RouterNode, names: Names<'_>) -> usize {
    let mut asked = 0;
    let operations = operations(&api_description(node, None).await);
    // A stream of events does not end.
    for operation in operations.iter().filter(|operation| operation.path != "/api/events") {
        for address in addresses(operation, names) {
            for body in BODIES {
                let method = operation.method.as_str();
                let request = Request::builder().method(method).uri(&address);
                let request = request.header(header::CONTENT_TYPE, "application/json");
                let answer = node.send(request.body(Body::from(body)).unwrap()).await;
                assert!(!answer.status.is_server_error(), "{method} {address} {body}: {answer:?}");
                asked += 1;
            }
        }
    }
    asked
}

/// The path with a zero in each place where a name goes, and with a zero in each parameter of its query.
fn addresses(operation: &Operation, names: Names<'_>) -> Vec<String> {
    let plain = operation.address(names);
    let mut addresses = vec![plain.clone()];
    for zero in operation.parameters("path") {
        let mut with_zero = vec![(zero, "a%00b")];
        with_zero.extend(names);
        addresses.push(fill(&operation.path, &with_zero));
    }
    addresses.extend(operation.parameters("query").iter().map(|name| format!("{plain}?{name}=%00")));
    addresses
}
