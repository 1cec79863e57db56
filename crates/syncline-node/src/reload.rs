//! Reading the configuration again while a node runs: what it takes over, and what needs a restart.
//!
//! Keys and issuers, with their origins and quotas, are taken over at once; whoever was let in by one that stayed the same
//! notices nothing. Parts take over what they can (`Part::reload`). Everything else counts from the next start, and the log says so.

use crate::config::Config;
use crate::node::Context;
use crate::part::Part;

/// Tables that are taken over while a node runs.
const RELOADED: [&str; 2] = ["keys", "issuers"];

impl Context {
    /// Takes over what can be taken over of another configuration, and says in the log what that is and what is left.
    pub fn reload(&self, new: &Config) {
        let mut changes = self.auth.credentials().configure(new.credentials.clone());
        changes.extend(new.parts.on().flat_map(|part| part.reload(self)));
        let waiting = needs_restart(&self.config, new);
        if changes.is_empty() && waiting.is_empty() {
            tracing::info!("the configuration was read again: nothing has changed");
            return;
        }
        if !changes.is_empty() {
            tracing::info!(changes = changes.join(", "), "the configuration was read again");
        }
        if !waiting.is_empty() {
            tracing::warn!(settings = waiting.join(", "), "these settings have changed and need a restart");
        }
    }
}

/// The settings that differ and that a running node does not take over.
fn needs_restart(old: &Config, new: &Config) -> Vec<String> {
    let (shown_old, shown_new) = (settled(old), settled(new));
    let names = shown_old.keys().chain(shown_new.keys()).filter(|name| !RELOADED.contains(&name.as_str()));
    let mut differing: Vec<String> =
        names.filter(|name| shown_old.get(*name) != shown_new.get(*name)).cloned().collect();
    // What is not shown is compared itself.
    let tokens = |config: &Config| {
        let tokens = config.owner_tokens();
        tokens.iter().map(|token| token.expose().to_owned()).collect::<Vec<_>>()
    };
    if tokens(old) != tokens(new) {
        differing.push("token".to_owned());
    }
    if old.database_url.expose() != new.database_url.expose() {
        differing.push("database_url".to_owned());
    }
    differing.sort();
    differing.dedup();
    differing
}

/// What is shown, but for what parts take over while the node runs.
fn settled(config: &Config) -> toml::Table {
    let mut table = shown(config);
    for (name, keys) in config.parts.all().filter_map(Part::reloaded) {
        let Some(toml::Value::Array(sections)) = table.get_mut(name) else { continue };
        for section in sections.iter_mut().filter_map(toml::Value::as_table_mut) {
            keys.iter().for_each(|key| drop(section.remove(*key)));
        }
    }
    table
}

fn shown(config: &Config) -> toml::Table {
    // What a configuration prints can be read again; a test keeps that true.
    config.to_string().parse().unwrap_or_default()
}
