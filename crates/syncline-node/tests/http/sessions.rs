//! Browsers that sign in with a key: they stay what the key is, and go when it goes.

use axum::body::Body;
use http::{Request, header};
use serde_json::json;
use syncline_testing::TestKey;

use crate::access::{get, node};
use crate::audit::as_owner;
use crate::keys::token_with;
use crate::world::{Answer, World};

const ISSUER: &str = "[[issuers]]\nname = \"shop\"\nissuer = \"https://shop.example\"\n\
     audience = \"https://node.example\"\nkeys = [{ kid = \"1\", secret = \"a-secret-of-an-issuer-of-32-bytes-or-more\" }]\n\
     may = [\"state:cart-{sub}:read,write\"]\n";

async fn sign_in(world: &World, credential: &str) -> Answer {
    world.json("POST", "/api/session", &json!({ "token": credential }).to_string()).await
}

async fn with_cookie(world: &World, cookie: &str, method: &str, path: &str) -> Answer {
    let request = Request::builder().method(method).uri(path).header(header::COOKIE, cookie);
    world.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn cn_05_a_browser_that_signs_in_with_a_key_may_what_the_key_may_until_it_is_removed() {
    let world = node("", &[]).await;
    let new = json!({ "name": "wallboard", "may": ["lock:*:see", "state:a:read"] }).to_string();
    let key = as_owner(&world, "POST", "/api/keys", &new).await.value()["key"].as_str().unwrap().to_owned();
    let signed_in = sign_in(&world, &key).await;
    let told = json!({ "required": true, "authenticated": true, "kind": "key", "name": "wallboard",
        "subject": "wallboard", "grants": ["lock:*:see", "state:a:read"] });
    assert_eq!(signed_in.value(), told);
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap().to_owned();
    assert!(!cookie.contains(&key), "a cookie is no copy of the key");
    assert_eq!(with_cookie(&world, &cookie, "GET", "/api/session").await.value(), told);
    assert_eq!(with_cookie(&world, &cookie, "GET", "/api/locks").await.status, 200);
    let refused = with_cookie(&world, &cookie, "GET", "/api/kv").await;
    refused.refused(403, "forbidden");
    with_cookie(&world, &cookie, "DELETE", "/api/state/a").await.refused(403, "forbidden");

    as_owner(&world, "DELETE", "/api/keys/wallboard", "").await;
    with_cookie(&world, &cookie, "GET", "/api/locks").await.refused(401, "token-missing");
    sign_in(&world, &key).await.refused(401, "token-revoked");
}

#[tokio::test]
async fn cn_05_what_everybody_can_read_and_what_ends_by_itself_signs_no_browser_in() {
    let world = node(ISSUER, &[]).await;
    let new = json!({ "name": "menu", "may": ["state:menu:read"], "public": true,
        "origins": ["https://shop.example"] });
    let made = as_owner(&world, "POST", "/api/keys", &new.to_string()).await.value();
    sign_in(&world, made["key"].as_str().unwrap()).await.refused(400, "invalid-credential");
    sign_in(&world, &token_with("7", &json!({}))).await.refused(400, "invalid-credential");
}

#[tokio::test]
async fn ac_05_issuers_are_listed_without_their_secrets() {
    let key = TestKey::new("dashboard", &["issuer:*:read"]);
    let world = node(ISSUER, &[&key]).await;
    let listed = get(&world, &key, "/api/issuers").await;
    assert!(!String::from_utf8_lossy(&listed.body).contains("a-secret"));
    let issuer = &listed.value()["issuers"][0];
    assert_eq!(
        (&issuer["name"], &issuer["alg"], &issuer["jwks"]),
        (&json!("shop"), &json!("HS256"), &json!(false))
    );
    assert_eq!(issuer["keys"], json!([{ "kid": "1", "until": null }]));
    assert_eq!(issuer["grants"], json!(["state:cart-{sub}:read,write"]));
    // A token says when it ends.
    let shown = Request::get("/api/session")
        .header(header::AUTHORIZATION, format!("Bearer {}", token_with("7", &json!({}))));
    let told = world.send(shown.body(Body::empty()).unwrap()).await.value();
    assert_eq!(told["subject"], "7");
    assert!(told["endsAt"].is_u64(), "{told}");
}
