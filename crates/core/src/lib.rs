//! Values and the hot step of Snowlease: what an id is, and how one generator issues it.
//!
//! Read in this order: [`Layout`] (widths of the three fields), [`Format`] (layout, tick length and
//! epoch), [`Id`] and its [`text`] forms, [`Window`] (where a holder may issue), and then
//! [`Generator`], the hot path. The promises G1 to G8 cited throughout are listed in
//! `docs/guarantees.md`.
//!
//! Nothing here does I/O, starts a thread or reads a clock: clocks are passed in as [`Clock`].

pub mod clock;
mod format;
mod generator;
mod id;
mod layout;
pub mod preset;
mod refusal;
mod span;
mod sync;
pub mod text;
mod tick;
mod wait;
mod window;

pub use clock::{Clock, Gauge, Moment, Pause};
pub use format::{Format, FormatError};
pub use generator::{Asked, Asking, Closed, ForkGuard, Generator, Local, Ticked};
pub use id::{Id, IdError, IdParts};
pub use layout::{Layout, LayoutError};
pub use preset::Preset;
pub use refusal::Refusal;
pub use span::{IdSpan, SpanError};
pub use text::{TextError, TextForm};
pub use tick::{Tick, TickError};
pub use window::{Window, WindowError};
