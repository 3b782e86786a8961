//! Independent models of the papers' mechanisms, and the program held against each.
//!
//! A model is written from the text of its paper alone, without a look at the code that it tests: plain, slow, and short
//! enough to be checked by eye. Model and program run the same load. Where the paper leaves nothing open, they must count
//! the same to the digit; everywhere else the test states its tolerance and where the tolerance comes from. A test that
//! fails means that one of the two misreads the paper; the paper decides which.
//!
//! One file per mechanism. The price is a second implementation of each: small, because a model has no persistence, no
//! garbage collection beside the one it models, and no concern for speed.

#[path = "models/load.rs"]
mod load;

#[path = "models/collection.rs"]
mod collection;
#[path = "models/gecko.rs"]
mod gecko;
#[path = "models/lifetime.rs"]
mod lifetime;
#[path = "models/packing.rs"]
mod packing;
#[path = "models/recycling.rs"]
mod recycling;
#[path = "models/sharing.rs"]
mod sharing;
#[path = "models/translation.rs"]
mod translation;
