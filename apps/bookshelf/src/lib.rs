//! The bookshelf, an application on Syncline: books that were scanned, their covers, and saved searches.
//!
//! - [`shelf_store`]: what it keeps, in tables of its own

pub mod shelf_store;
