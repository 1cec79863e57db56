//! `/api/audit`, `/api/keys`, `/api/issuers`, `/api/revocations`: who may do what, who did what, and taking it back.

mod audit;
mod issuers;
mod keys;
mod revocations;

use utoipa_axum::routes;

use crate::part::{Name, Routes, Rules};

pub(super) fn routes() -> Routes {
    let reading = Rules::new().needs("audit", "read", Name::All);
    let key = |verb, name| Rules::new().needs("key", verb, name);
    let revoking = || Rules::new().needs("token", "revoke", Name::Any);
    Routes::new()
        .with_rules(reading, routes!(audit::list))
        .with_rules(key("read", Name::Any), routes!(keys::list))
        .with_rules(key("manage", Name::Any), routes!(keys::add))
        .with_rules(key("manage", Name::Path("name")), routes!(keys::remove))
        .with_rules(Rules::new().needs("issuer", "read", Name::All), routes!(issuers::list))
        .with_rules(revoking(), routes!(revocations::list))
        .with_rules(revoking(), routes!(revocations::revoke))
        .with_rules(revoking(), routes!(revocations::remove))
}
