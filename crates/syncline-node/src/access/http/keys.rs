//! `/api/keys`: static keys, listed with their last use, made and removed on a running node.
//!
//! A key is in the answer to its making and nowhere else. Whoever makes a key by a grant gives it nothing that it has not itself.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use syncline_core::access::{GRANTS_MAX, Grant};
use syncline_store::access::keys::{KeyUse, StoredKey};
use syncline_store::access::revocations::NewRevocation;
use utoipa::ToSchema;

use crate::Context;
use crate::access::follow::AccessControl;
use crate::access::{KeyHash, KeySettings, Principal, Vocabulary, check_harmless, check_name, new_key};
use crate::config::origin;
use crate::http::body::{Json, Path};
use crate::http::{Caller, Error, Recorder};
use crate::part::Service;

/// Most origins of one key.
const ORIGINS_MAX: usize = 100;

/// A key as others may see it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiKeyView {
    /// Its name, under which it acts.
    name: String,
    /// `secret`, or `publishable` for pages.
    kind: &'static str,
    /// What it may do.
    grants: Vec<String>,
    /// Origins whose pages may show it.
    origins: Vec<String>,
    /// `file` if `syncline.toml` has it, `node` if it was made on a running node.
    source: &'static str,
    /// When it was made, in milliseconds since 1970; absent for keys of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<i64>,
    /// By whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
    /// When it was last shown, in milliseconds since 1970; `null` if never. Nodes report it every ten seconds.
    last_used_at: Option<i64>,
    /// From which address.
    last_used_from: Option<String>,
}

/// The keys of a node.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiKeyList)]
pub(crate) struct Keys {
    keys: Vec<ApiKeyView>,
}

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewKey {
    /// Its name, under which it acts.
    name: String,
    /// What it may do, as grants.
    may: Vec<String>,
    /// Make it publishable: for pages, with harmless verbs alone.
    #[serde(default)]
    public: bool,
    /// Origins whose pages may show it.
    #[serde(default)]
    origins: Vec<String>,
}

/// A key that was made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MadeKey {
    /// Its name.
    name: String,
    /// The key. It is shown this once.
    key: String,
}

/// What was done.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemovedApiKey {
    name: String,
    /// `syncline.toml` still has its table. The key is refused all the same.
    in_file: bool,
}

/// Lists the keys that the caller may see, with their last use.
#[utoipa::path(get, path = "/api/keys", tag = "access", responses((status = 200, body = Keys)))]
pub(crate) async fn list(
    Service(control): Service<AccessControl>,
    Caller(caller): Caller,
) -> Result<axum::Json<Keys>, Error> {
    let stored = control.store().keys().await?;
    let stored: HashMap<String, StoredKey> = stored.into_iter().map(|key| (key.name.clone(), key)).collect();
    let uses = control.store().uses().await?;
    let uses: HashMap<String, KeyUse> = uses.into_iter().map(|used| (used.name.clone(), used)).collect();
    let mut keys = Vec::new();
    for held in control.credentials().keys() {
        let name = held.settings.name.clone();
        if caller.require("key", "read", &name).is_err() {
            continue;
        }
        let made = stored.get(&name).filter(|_| !held.in_file);
        let reported = uses.get(&name).map(|used| (used.used_at_ms, used.used_from.clone()));
        let here = held.last_shown.map(|(at, from)| {
            (i64::try_from(at.as_ms()).unwrap_or(i64::MAX), from.map(|from| from.to_string()))
        });
        let last = [reported, here].into_iter().flatten().max_by_key(|(at, _)| *at);
        keys.push(ApiKeyView {
            kind: if held.settings.public { "publishable" } else { "secret" },
            grants: held.settings.may.iter().map(ToString::to_string).collect(),
            origins: held.settings.origins.clone(),
            source: if held.in_file { "file" } else { "node" },
            created_at: made.map(|key| key.created_at_ms),
            created_by: made.map(|key| key.created_by.clone()),
            last_used_at: last.as_ref().map(|(at, _)| *at),
            last_used_from: last.and_then(|(_, from)| from),
            name,
        });
    }
    Ok(axum::Json(Keys { keys }))
}

/// Makes a key, which counts on all nodes within seconds. Needs the grant `key:{name}:manage`, and every grant that the key
/// is to have.
#[utoipa::path(post, path = "/api/keys", tag = "access", request_body = NewKey,
    responses((status = 201, body = MadeKey), (status = 400), (status = 409)))]
pub(crate) async fn add(
    State(context): State<Arc<Context>>,
    Service(control): Service<AccessControl>,
    Caller(caller): Caller,
    recorder: Recorder,
    Json(new): Json<NewKey>,
) -> Result<(StatusCode, axum::Json<MadeKey>), Error> {
    let (key, hash) = new_key(new.public);
    let may = new.may.clone();
    let settings = checked(&new, hash, &Vocabulary::of(context.config.parts.all()))?;
    caller.require("key", "manage", &settings.name)?;
    for grant in settings.may.iter() {
        may_pass_on(&caller, grant)?;
    }
    let names = control.credentials().keys().into_iter().map(|key| key.settings.name);
    let taken = names.chain(control.credentials().issuer_names()).any(|name| name == settings.name);
    let stored = StoredKey {
        name: settings.name.clone(),
        hash: hash.to_string(),
        may,
        public: settings.public,
        origins: settings.origins,
        created_at_ms: 0,
        created_by: recorder.who().short(),
    };
    let pending = recorder.begin("key", "manage", &settings.name).await?;
    let added = if taken { Ok(false) } else { control.store().add_key(stored).await };
    pending.settle(added.as_ref().map_or(Some("store"), |added| (!added).then_some("name-taken"))).await;
    if !added? {
        let message = format!("there is a key or an issuer {:?} already", settings.name);
        return Err(Error::new(StatusCode::CONFLICT, "name-taken", message));
    }
    control.look().await?;
    let made = MadeKey { name: settings.name, key: key.expose().to_owned() };
    Ok((StatusCode::CREATED, axum::Json(made)))
}

/// Removes a key: it is refused here at once, on all nodes within five seconds, and open streams that it opened end.
#[utoipa::path(delete, path = "/api/keys/{name}", tag = "access", params(("name" = String, Path)),
    responses((status = 200, body = RemovedApiKey), (status = 404)))]
pub(crate) async fn remove(
    Service(control): Service<AccessControl>,
    recorder: Recorder,
    Path(name): Path<String>,
) -> Result<axum::Json<RemovedApiKey>, Error> {
    let held: Vec<_> =
        control.credentials().keys().into_iter().filter(|key| key.settings.name == name).collect();
    if held.is_empty() {
        return Err(Error::missing("there is no such key"));
    }
    let in_file = held.iter().any(|key| key.in_file);
    for key in held {
        // Whoever shows it from now on is told that it was taken back, also where the file still has it.
        let revocation = NewRevocation {
            kind: "key",
            scope: name.clone(),
            value: key.settings.hash.to_string(),
            issued_before_ms: None,
            made_by: recorder.who().short(),
            lasts: (!key.in_file).then_some(syncline_store::access::audit::AUDIT_KEPT),
        };
        control.store().revoke(revocation).await?;
    }
    control.store().remove_key(&name).await?;
    control.look().await?;
    Ok(axum::Json(RemovedApiKey { name, in_file }))
}

fn checked(new: &NewKey, hash: KeyHash, words: &Vocabulary) -> Result<KeySettings, Error> {
    let name = check_name(&new.name).map_err(|what| Error::invalid("invalid-name", what))?;
    if new.may.is_empty() || new.may.len() > GRANTS_MAX {
        return Err(Error::invalid("invalid-grant", format!("a key has 1 to {GRANTS_MAX} grants")));
    }
    let grant = |text: &String| -> Result<Grant, Error> {
        let grant: Grant =
            text.parse().map_err(|wrong| Error::invalid("invalid-grant", format!("{text}: {wrong}")))?;
        words.check(grant.system(), grant.verbs()).map_err(|what| Error::invalid("invalid-grant", what))?;
        if new.public {
            check_harmless(&grant).map_err(|what| Error::invalid("harmful-grant", what))?;
        }
        Ok(grant)
    };
    let may = new.may.iter().map(grant).collect::<Result<_, Error>>()?;
    if new.origins.len() > ORIGINS_MAX || (new.public && new.origins.is_empty()) {
        let message =
            format!("a key has at most {ORIGINS_MAX} origins, and a publishable one needs at least one");
        return Err(Error::invalid("invalid-origin", message));
    }
    let origins = new.origins.iter().map(|text| origin(text));
    let origins =
        origins.collect::<Result<_, String>>().map_err(|what| Error::invalid("invalid-origin", what))?;
    let quota = KeySettings::usual_quota(new.public);
    Ok(KeySettings { name, hash, may, public: new.public, origins, quota, sender: None })
}

/// Nobody gives what it has not.
fn may_pass_on(caller: &Principal, grant: &Grant) -> Result<(), Error> {
    if caller.is_owner() || caller.grants().cover(grant) {
        return Ok(());
    }
    let message = format!("the caller cannot give {grant}: it has no such grant itself");
    Err(Error::new(StatusCode::FORBIDDEN, "forbidden", message)
        .with(serde_json::json!({ "grant": grant.to_string() })))
}
