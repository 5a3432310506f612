//! The built executable, called as a person or a script calls it.

mod run;

mod decode;
mod layout;
mod range;
mod start;
