//! Listings: a page has a bound in bytes, and `next` leads through everything exactly once.

use std::collections::HashSet;

use serde_json::Value;

use crate::RouterNode;

/// No page is longer than this: what the store gives at most, and one thing more.
const PAGE_MAX_BYTES: usize = 10 * 1024 * 1024;

/// Checks a listing at `path`, which ends where a parameter may follow (`/api/kv?prefix=a&`): pages are bounded, and lead
/// through everything once. `items` is the field with the things, `id` the field that tells them apart. Returns how many
/// things there are; fill it with the largest that it can hold.
pub async fn a_listing_leads_through_everything(
    node: &RouterNode,
    path: &str,
    items: &str,
    id: &str,
) -> usize {
    let few_at_once = ids(node, path, items, id, 17).await;
    let many_at_once = ids(node, path, items, id, 1_000).await;
    let (few, many) = (few_at_once.len(), many_at_once.len());
    assert!(few_at_once == many_at_once, "{path}: {few} things by short pages, {many} by long ones");
    many
}

async fn ids(node: &RouterNode, path: &str, items: &str, id: &str, limit: usize) -> HashSet<String> {
    let (mut seen, mut after) = (HashSet::new(), String::new());
    loop {
        let answer = node.get(&format!("{path}limit={limit}{after}")).await;
        assert_eq!(answer.status, 200, "{path}limit={limit}{after}: {answer:?}");
        let bytes = answer.body.len();
        assert!(bytes <= PAGE_MAX_BYTES, "{path}limit={limit}: a page of {bytes} bytes");
        let page = answer.value();
        let listed = page[items].as_array().unwrap_or_else(|| panic!("{path}: no {items}: {page}"));
        for item in listed {
            assert!(seen.insert(item[id].to_string()), "{path}limit={limit}: {} twice", item[id]);
        }
        let next = match &page["next"] {
            Value::Null => return seen,
            Value::String(next) => next.clone(),
            next => next.to_string(),
        };
        let next: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        let following = format!("&after={next}");
        assert_ne!(following, after, "{path}limit={limit}: a page leads to itself");
        after = following;
    }
}
