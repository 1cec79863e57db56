//! `GET /api/issuers`: who signs tokens for people, and what those may get at most. Secrets are not in it, nor is any key.

use serde::Serialize;
use syncline_core::time::Timestamp;
use utoipa::ToSchema;

use crate::access::follow::AccessControl;
use crate::access::{IssuerKey, IssuerSettings, KeySource};
use crate::part::Service;

/// An issuer as others may see it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IssuerView {
    /// Its name here.
    name: String,
    /// The `iss` of its tokens.
    issuer: String,
    /// The `aud` of its tokens.
    audience: String,
    /// How its tokens are signed.
    alg: String,
    /// The keys of the file, by their ids; empty where the issuer publishes them.
    keys: Vec<IssuerKeyView>,
    /// Whether the issuer publishes its keys (JWKS).
    jwks: bool,
    /// Origins whose pages may show its tokens.
    origins: Vec<String>,
    /// The most that a token may get.
    grants: Vec<String>,
    /// How long a token counts after its `iat`.
    max_age_sec: u64,
}

/// A key of an issuer: which, and until when.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IssuerKeyView {
    kid: Option<String>,
    /// When it ends, in milliseconds since 1970.
    until: Option<u64>,
}

/// The issuers of a node.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = IssuerList)]
pub(crate) struct Issuers {
    issuers: Vec<IssuerView>,
}

/// Lists who signs tokens that this node accepts.
#[utoipa::path(get, path = "/api/issuers", tag = "access", responses((status = 200, body = Issuers)))]
pub(crate) async fn list(Service(control): Service<AccessControl>) -> axum::Json<Issuers> {
    let credentials = control.credentials();
    let named = credentials.issuer_names().into_iter().filter_map(|name| credentials.issuer_named(&name));
    axum::Json(Issuers { issuers: named.map(IssuerView::from).collect() })
}

impl From<IssuerSettings> for IssuerView {
    fn from(issuer: IssuerSettings) -> IssuerView {
        let (keys, jwks) = match &issuer.keys {
            KeySource::Listed(keys) => (keys.as_slice(), false),
            KeySource::Published(_) => (&[][..], true),
        };
        let view =
            |key: &IssuerKey| IssuerKeyView { kid: key.kid.clone(), until: key.until.map(Timestamp::as_ms) };
        IssuerView {
            keys: keys.iter().map(view).collect(),
            jwks,
            alg: issuer.algorithm.as_str().to_owned(),
            grants: issuer.may.iter().map(ToString::to_string).collect(),
            max_age_sec: issuer.max_age.as_secs(),
            name: issuer.name,
            issuer: issuer.issuer,
            audience: issuer.audience,
            origins: issuer.origins,
        }
    }
}
