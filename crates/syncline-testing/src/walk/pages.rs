//! Pages of the console.

use std::collections::BTreeSet;

use super::{is_for_programs, served_paths};
use crate::RouterNode;

/// Checks that every page is served as HTML, and returns their paths.
pub async fn every_page_is_whole(node: &RouterNode) -> BTreeSet<String> {
    // What has a variable is a folder of files.
    let is_page = |path: &String| !is_for_programs(path) && !path.contains('{');
    let pages: BTreeSet<String> = served_paths(node).into_iter().filter(is_page).collect();
    for path in &pages {
        let page = node.get(path).await;
        let kind = (page.status.as_u16(), page.header("content-type"));
        assert_eq!(kind, (200, "text/html; charset=utf-8"), "{path}");
        assert!(page.text().to_lowercase().starts_with("<!doctype html>"), "{path}");
    }
    pages
}
