//! placeholder

pub mod postgres;
