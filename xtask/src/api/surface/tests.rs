//! Listings of small crates.

use super::*;

#[track_caller]
fn check(source: &str, expected: &[&str]) {
    assert_eq!(list("c", &Tree::from_source(source)), expected);
}

#[test]
fn only_reachable_items_are_listed() {
    check("fn private() {} pub(crate) fn inner() {}", &[]);
    check("mod hidden { pub fn f() {} }", &[]);
    check("pub mod open { pub fn f() {} fn g() {} }", &["pub mod c::open", "pub fn c::open::f()"]);
    check("#[doc(hidden)] pub fn f() {} #[cfg(test)] pub fn g() {}", &[]);
    check("#[cfg(test)] pub mod tests { pub fn f() {} }", &[]);
}

#[test]
fn re_exports_are_listed_by_their_public_path() {
    check("mod a { pub fn f() {} pub fn g() {} } pub use a::f;", &["pub fn c::f()"]);
    check("mod a { pub fn f() {} } pub use a::{f as g};", &["pub fn c::g()"]);
    check("mod a { pub fn f() {} } pub use self::a::*;", &["pub fn c::f()"]);
    check(
        "mod a { mod b { pub fn f() {} } pub use b::f; } pub use crate::a::f;",
        &["pub fn c::f()"],
    );
    check(
        "mod a { pub mod b { pub fn f() {} } } pub use a::b as d;",
        &["pub mod c::d", "pub fn c::d::f()"],
    );
    check(
        "mod a { pub struct S; impl S { pub fn f(&self) {} } } pub use a::S; pub mod p { pub use crate::S; }",
        &["pub struct c::S;", "pub fn c::S::f(&self)", "pub mod c::p", "pub use c::p::S = c::S"],
    );
}

#[test]
fn re_exports_of_other_crates_name_their_origin() {
    check(
        "#[cfg(feature = \"x\")] pub use serde as s; pub use serde::{Serialize, de::*};",
        &[
            "pub use c::* = serde::de::*",
            "pub use c::Serialize = serde::Serialize",
            "#[cfg(feature = \"x\")] pub use c::s = serde",
        ],
    );
    check(
        "mod a { pub(crate) use serde::Serialize; } pub use a::Serialize as Ser;",
        &["pub use c::Ser = serde::Serialize"],
    );
    // A macro may be called as its crate.
    check("pub use tool::{A, tool};", &["pub use c::A = tool::A", "pub use c::tool = tool::tool"]);
}

#[test]
fn structs_show_their_fields_and_whether_there_are_others() {
    check(
        "#[derive(Clone, serde::Serialize)] #[cfg_attr(feature = \"j\", derive(JsonSchema))]
         pub struct S<T> where T: Send { pub a: Vec<T>, b: u8 }",
        &[
            "pub struct c::S<T> where T: Send { .. }",
            "#[cfg(feature = \"j\")] impl JsonSchema for c::S",
            "impl Clone for c::S",
            "impl Serialize for c::S",
            "pub c::S::a: Vec<T>",
        ],
    );
    check(
        "#[non_exhaustive] pub struct T(pub u8);",
        &["#[non_exhaustive] pub struct c::T", "pub c::T::0: u8"],
    );
}

#[test]
fn enums_show_their_variants() {
    check(
        "#[non_exhaustive] pub enum E { A, #[doc = \"b\"] B(u8, #[source] Box<E>),
           #[non_exhaustive] C { x: u8 }, #[doc(hidden)] D }",
        &[
            "#[non_exhaustive] pub enum c::E",
            "pub c::E::A",
            "pub c::E::B(u8, Box<E>)",
            "#[non_exhaustive] pub c::E::C { x: u8 }",
        ],
    );
}

#[test]
fn traits_show_what_implementers_write() {
    check(
        "pub trait T<A = ()>: Send + 'static {
           type Out: Debug; const N: usize = 4;
           fn must(&self, mut a: A) -> Self::Out;
           fn may(mut self) where Self: Sized {} }",
        &[
            "pub trait c::T<A = ()>: Send + 'static",
            "pub const c::T::N: usize = ..",
            "pub type c::T::Out: Debug",
            "pub fn c::T::may(self) where Self: Sized { .. }",
            "pub fn c::T::must(&self, a: A) -> Self::Out",
        ],
    );
}

#[test]
fn impls_count_if_the_type_or_the_trait_is_public() {
    check(
        "pub struct S; struct P; trait Q {} pub trait R {}
         mod inner { use super::S as Other; impl std::fmt::Display for Other {} }
         impl Clone for P {} impl Q for S {} impl R for P {} impl R for String {}
         impl<T: Send> R for Vec<T> {} impl From<S> for String {} impl Clone for Foreign {}
         impl Iterator for S { type Item = u8; fn next(&mut self) {} }",
        &[
            "pub trait c::R",
            "impl R for String",
            "impl<T: Send> R for Vec<T>",
            "pub struct c::S;",
            "impl Display for c::S",
            "impl From<S> for String",
            "impl Iterator for c::S { type Item = u8; }",
        ],
    );
}

#[test]
fn inherent_items_are_listed_under_their_type() {
    check(
        "pub struct S<T>(T);
         impl<T: Send> S<T> { pub const N: u8 = 1; pub async fn f(&mut self, (a, b): (u8, T)) {} fn g() {} }
         impl S<u8> { #[doc(hidden)] pub fn h() {} pub const fn new() -> Self { todo() } }",
        &[
            "pub struct c::S<T> { .. }",
            "impl<T: Send> c::S<T>",
            "pub const c::S<T>::N: u8",
            "pub async fn c::S<T>::f(&mut self, _: (u8, T))",
            "pub const fn c::S<u8>::new() -> Self",
        ],
    );
}

#[test]
fn gates_are_inherited_once() {
    check(
        "#[cfg(feature = \"x\")] mod a { pub fn f() {} #[cfg(unix)] pub fn g() {} }
         #[cfg(feature = \"x\")] pub use a::*;",
        &[
            "#[cfg(feature = \"x\")] pub fn c::f()",
            "#[cfg(feature = \"x\")] #[cfg(unix)] pub fn c::g()",
        ],
    );
}

#[test]
fn constants_aliases_and_macros_are_listed() {
    check(
        "pub const N: usize = 3; pub static S: &str = \"\"; pub type A<T> = Vec<T>;
         mod m { #[macro_export] macro_rules! go { () => {} } macro_rules! no { () => {} } }
         #[proc_macro_derive(Tool, attributes(tool))] pub fn derive(i: TokenStream) -> TokenStream { i }",
        &[
            "pub type c::A<T> = Vec<T>",
            "pub const c::N: usize",
            "pub static c::S: &str",
            "#[proc_macro_derive(Tool, attributes(tool))] pub fn c::derive(i: TokenStream) -> TokenStream",
            "pub macro c::go!",
        ],
    );
}

#[test]
fn modules_of_one_name_for_several_platforms_are_all_listed() {
    check(
        "#[cfg(unix)] mod a { pub trait T: Send {} } #[cfg(not(unix))] mod a { pub trait T {} }
         pub use a::T;",
        &["#[cfg(not(unix))] pub trait c::T", "#[cfg(unix)] pub trait c::T: Send"],
    );
}

#[test]
fn items_in_the_call_of_a_macro_are_listed() {
    check(
        "pin_project! { pub struct S { #[pin] a: u8 } } other!(a => b);",
        &["pub struct c::S { .. }"],
    );
}
