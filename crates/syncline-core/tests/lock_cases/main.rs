//! The project lock of one tab, case by case.

mod cases;
mod corners;
mod tab;
