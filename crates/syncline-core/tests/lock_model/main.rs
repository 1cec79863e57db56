//! Every interleaving of small worlds of tabs, through the real machine: who holds, who writes, who steals, and how long
//! nobody does. Each world is explored to its end: until its time is up, with each fault its budget allows at each
//! moment it can happen.

mod explore;
mod planted;
mod tab;
mod world;
mod worlds;
