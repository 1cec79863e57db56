//! A node with all systems of the platform and a guest book: `cargo run --package example-own-part`, and then, beside it,
//! `cargo run --package example-own-part -- sign ann`.

use example_own_part::{Guestbook, commands};
use syncline_client::command::{add_to, called};
use syncline_node::config::Flags;
use syncline_node::{Config, Node};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Chooses how TLS is done; an error only says that it was chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let commands = commands();
    let program = add_to(clap::Command::new("example-own-part").about("A node with a guest book"), &commands);
    match called(&commands, &program.get_matches()) {
        Some(work) => work.await,
        None => serve().await,
    }
}

async fn serve() -> anyhow::Result<()> {
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
