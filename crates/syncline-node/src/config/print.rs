//! The effective configuration as a file that could be loaded again, with everything hidden that may be a secret: tokens,
//! headers, bodies, arguments of commands, and all of an address behind its host.

use std::fmt::{self, Display, Write};

use super::{Config, Place};
use crate::part::Kind;
use crate::secret::{REDACTED, redact_url};

impl Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, place) in self.sources.iter().filter(|(_, place)| **place != Place::Default) {
            writeln!(f, "# {key} comes from: {place}")?;
        }
        setting(f, "listen", self.listen.to_string())?;
        setting(f, "data", self.data.display().to_string())?;
        setting(f, "database_url", self.database_shown())?;
        if let Some(url) = &self.database_listen_url {
            setting(f, "database_listen_url", redact_url(url.expose()))?;
        }
        setting(f, "database_connections", i64::from(self.database_connections))?;
        if let Some(node) = &self.node {
            setting(f, "node", node.as_str())?;
        }
        setting(f, "schema", self.schema.as_str())?;
        setting(f, "migrate", self.migrate)?;
        if self.token.is_some() {
            setting(f, "token", REDACTED)?;
        }
        if self.token_next.is_some() {
            setting(f, "token_next", REDACTED)?;
        }
        if let Some(url) = &self.public_base_url {
            setting(f, "public_base_url", url.as_str())?;
        }
        setting(f, "allowed_hosts", self.allowed_hosts.clone())?;
        setting(f, "trust_forwarded_for", self.trust_forwarded_for)?;
        setting(f, "systems", self.parts.names(Kind::System))?;
        setting(f, "apps", self.parts.names(Kind::App))?;
        self.parts.on().try_for_each(|part| part.print_keys(f))?;

        writeln!(f, "\n[log]")?;
        setting(f, "level", self.log.level.as_str())?;
        setting(f, "format", self.log.format.as_str())?;

        let limits = &self.limits;
        writeln!(f, "\n[limits]")?;
        setting(f, "connections", limits.connections as i64)?;
        setting(f, "connections_per_address", limits.connections_per_address as i64)?;
        setting(f, "event_streams", limits.event_streams as i64)?;
        setting(f, "header_timeout_sec", limits.header_timeout.as_secs() as i64)?;
        setting(f, "body_idle_timeout_sec", limits.body_idle_timeout.as_secs() as i64)?;
        setting(f, "request_timeout_sec", limits.request_timeout.as_secs() as i64)?;
        setting(f, "upload_timeout_sec", limits.upload_timeout.as_secs() as i64)?;
        setting(f, "drain_timeout_sec", limits.drain_timeout.as_secs() as i64)?;
        super::access::print(f, &self.credentials)?;
        self.parts.on().try_for_each(|part| part.print(f))
    }
}

/// Writes one line of a file: `key = value`.
pub fn setting(f: &mut impl Write, key: &str, value: impl Into<toml::Value>) -> fmt::Result {
    writeln!(f, "{key} = {}", value.into())
}
