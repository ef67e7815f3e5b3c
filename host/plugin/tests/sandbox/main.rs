//! The sandbox from outside: good plugins, bad ones and malicious ones, all of them made here.

mod calls;
mod guest;
mod load;
mod wasi;
