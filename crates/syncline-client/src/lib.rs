//! What a command needs that talks to a node: the commands of `syncline` use it, and so does an app for commands of its own.
//!
//! - [`AppCommand`](command::AppCommand): a command that an app adds to the program, and how a program takes it up
//! - [`Target`], [`Client`]: which node is asked, and asking it; a refusal is a [`Refusal`]
//! - [`Listener`]: what a node tells, for as long as it takes
//! - [`Pending`], [`Progress`]: what is waited for, and how far it is, on a terminal
//! - [`Wait`]: how long a command waits, as `--wait` says
//! - [`Keys`]: keys from the command line, a file or standard input
//! - [`answer`]: what a node said, in words
//! - [`output`]: what goes to the screen, and with which colours; [`Screen`]: a whole one, drawn again and again
//! - [`stop_signal`], [`reload_signal`]: being asked to stop, and to read the configuration again
//!
//! Leaves to the program: which apps there are, how TLS is done, and with which exit code it ends.

pub mod answer;
mod client;
pub mod command;
mod input;
mod listener;
pub mod output;
mod pending;
mod progress;
mod screen;
mod signal;
mod wait;

pub use client::{Client, Preflight, Refusal, Target};
pub use input::Keys;
pub use listener::{Heard, Listener};
pub use pending::{IN_VAIN_MAX, Pending};
pub use progress::Progress;
/// The words of requests and refusals.
pub use reqwest::{Method, StatusCode};
pub use screen::Screen;
pub use signal::{reload_signal, stop_signal, stop_signal_of_reloading};
pub use wait::Wait;
