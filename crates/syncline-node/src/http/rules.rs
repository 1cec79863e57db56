//! The addresses of a node as the door knows them: the rules of each, and the series in which its requests are counted.

use std::collections::HashMap;

use http::Method;

use super::metrics::Series;
use crate::metrics::Registry;
use crate::part::{CrossSite, Rules};

/// Every address and method with its rules and its series; one more for everything else.
pub(crate) struct Endpoints {
    by_path: HashMap<String, Vec<(Method, Endpoint)>>,
    other: Endpoint,
}

pub(crate) struct Endpoint {
    pub(crate) rules: Rules,
    pub(crate) series: Series,
}

impl Endpoints {
    pub(crate) fn new(registry: &Registry, rules: Vec<(String, Method, Rules)>) -> Endpoints {
        let mut by_path: HashMap<String, Vec<(Method, Endpoint)>> = HashMap::new();
        for (path, method, rules) in rules {
            let series = Series::new(registry, &path, method.as_str());
            by_path.entry(path).or_default().push((method, Endpoint { rules, series }));
        }
        // A person may follow a link to an address that is none.
        let rules = Rules::new().cross_site(CrossSite::Allowed);
        Endpoints { by_path, other: Endpoint { rules, series: Series::new(registry, "other", "any") } }
    }

    /// The address that the router found for a request. A method it does not have is judged by the rules of one it has.
    pub(crate) fn find(&self, path: Option<&str>, method: &Method) -> (&Rules, &Series) {
        // A HEAD is a GET that keeps its body to itself.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let Some(methods) = path.and_then(|path| self.by_path.get(path)) else {
            return (&self.other.rules, &self.other.series);
        };
        match methods.iter().find(|(known, _)| known == method) {
            Some((_, found)) => (&found.rules, &found.series),
            None => (&methods[0].1.rules, &self.other.series),
        }
    }

    /// The methods of an address with their rules; none where the router knows no such address.
    pub(crate) fn methods(&self, path: &str) -> Vec<(&Method, &Rules)> {
        let methods = self.by_path.get(path).map(Vec::as_slice).unwrap_or_default();
        methods.iter().map(|(method, endpoint)| (method, &endpoint.rules)).collect()
    }
}
