//! A node with all systems of the platform and a guest book: `cargo run --package example-own-part`.

use example_own_part::Guestbook;
use syncline_node::config::Flags;
use syncline_node::{Config, Node};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Chooses how TLS is done; an error only says that it was chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut parts = syncline_node::systems();
    parts.push(Box::new(Guestbook::default()));
    let flags = Flags { apps: Some("guestbook".to_owned()), ..Flags::default() };
    let node = Node::start(Config::load(&flags, &|name| std::env::var(name).ok(), parts)?).await?;
    print_address(&node);
    tokio::signal::ctrl_c().await?;
    node.stop().await;
    Ok(())
}

#[allow(clippy::print_stdout, reason = "it is a program for people")]
fn print_address(node: &syncline_node::Running) {
    println!("listening on http://{}", node.address());
}
