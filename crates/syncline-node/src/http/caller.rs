//! From which address a request comes.

use std::net::IpAddr;

use http::{Extensions, HeaderMap};

use crate::Context;
use crate::server::Peer;

/// Who sent a request; `None` if it did not come over a socket.
pub(crate) fn address(extensions: &Extensions, headers: &HeaderMap, context: &Context) -> Option<IpAddr> {
    let peer = extensions.get::<Peer>().map(|peer| peer.0.ip());
    if !context.config.trust_forwarded_for {
        return peer;
    }
    // The last entry is the one our own proxy wrote; all before it is hearsay.
    let forwarded = headers.get_all("x-forwarded-for").iter().next_back();
    let last = forwarded.and_then(|value| value.to_str().ok()?.rsplit(',').next()).map(str::trim);
    last.and_then(|text| text.parse().ok()).or(peer)
}
