//! Tests the listings of small crates.

use super::super::source::from_text;
use super::*;

#[track_caller]
fn check(source: &str, expected: &[&str]) {
    assert_eq!(list("c", &from_text(source)), expected);
}

#[test]
fn only_public_items_are_listed() {
    check("fn private() {} pub(crate) fn inner() {} pub(super) struct S;", &[]);
    check("#[doc(hidden)] pub fn f() {} #[cfg(test)] pub fn g() {}", &[]);
    check("#[cfg(all(test, unix))] pub fn f() {}", &[]);
    check("#[cfg(test)] pub mod tests { pub fn f() {} }", &[]);
    check(
        "#[doc(hidden)] pub mod m { pub fn f() {} #[macro_export] macro_rules! go { () => {} } }",
        &[],
    );
    check("#[doc(hidden)] pub struct S; impl Clone for S {}", &[]);
}

#[test]
fn path_has_public_modules_only() {
    check("pub mod open { pub fn f() {} fn g() {} }", &["pub mod c::open", "pub fn c::open::f()"]);
    check("mod private { pub fn f() {} }", &["pub fn c::f()"]);
    check(
        "pub mod a { mod b { pub struct S; impl S { pub fn f() {} } } }",
        &["pub mod c::a", "pub struct c::a::S;", "pub fn c::a::S::f()"],
    );
    check("mod a { pub mod b { pub fn f() {} } }", &["pub mod c::b", "pub fn c::b::f()"]);
}

#[test]
fn private_modules_make_no_difference() {
    let [one, other] = [
        "mod a { pub struct S; impl S { pub fn f() {} } } pub use a::S;",
        "mod x { pub struct S; mod y { use super::S; impl S { pub fn f() {} } } } pub use x::S;",
    ]
    .map(|source| list("c", &from_text(source)));
    assert_eq!(one, other);
}

#[test]
fn re_export_of_own_item_has_a_line_if_its_path_or_gate_differs() {
    check("mod a { pub fn f() {} } pub(crate) use a::f as g; pub use a::f;", &["pub fn c::f()"]);
    check(
        "mod a { #[non_exhaustive] pub struct S; } pub use a::S;",
        &["#[non_exhaustive] pub struct c::S;"],
    );
    check("mod a { pub fn f() {} } pub use a::{f as g};", &["pub fn c::f()", "pub use c::g = f"]);
    check(
        "mod a { pub fn f() {} } #[cfg(unix)] pub use a::f;",
        &["#[cfg(unix)] pub use c::f", "pub fn c::f()"],
    );
    check(
        "#[cfg(unix)] mod a { pub fn f() {} } #[cfg(unix)] pub use a::f;",
        &["#[cfg(unix)] pub fn c::f()"],
    );
    check(
        "mod a { pub fn f() {} } pub use self::a::*;",
        &["pub use c::* = self::a::*", "pub fn c::f()"],
    );
    check(
        "mod a { pub struct S; } pub mod p { pub use crate::a::{S, S as T}; }",
        &["pub struct c::S;", "pub mod c::p", "pub use c::p::S", "pub use c::p::T = S"],
    );
    check(
        "mod a { pub(crate) use serde::Serialize; } pub use a::Serialize;",
        &["pub use c::Serialize"],
    );
}

#[test]
fn re_export_of_another_crate_names_its_origin() {
    check(
        "#[cfg(feature = \"x\")] pub use serde as s; pub use serde::{Serialize, de::*};",
        &[
            "pub use c::* = serde::de::*",
            "pub use c::Serialize = serde::Serialize",
            "#[cfg(feature = \"x\")] pub use c::s = serde",
        ],
    );
    check("pub use serde; #[doc(hidden)] pub use syn;", &["pub use c::serde = serde"]);
    check("pub use tool::{A, tool};", &["pub use c::A = tool::A", "pub use c::tool = tool::tool"]);
}

#[test]
fn structs_show_their_fields_and_whether_there_are_others() {
    check(
        "#[derive(Clone, serde::Serialize)] #[cfg_attr(feature = \"j\", derive(JsonSchema))]
         pub struct S<T> where T: Send { pub a: Vec<T>, b: u8 }",
        &["pub struct c::S<T> where T: Send { .. }", "pub c::S::a: Vec<T>"],
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
fn impls_are_listed_for_public_types_and_traits() {
    check(
        "pub struct S; struct P; trait Q {} pub trait R {}
         mod inner { use super::S; impl std::fmt::Display for S {} }
         impl Clone for P {} impl Q for S {} impl R for P {} impl R for String {}
         impl<T: Send> R for Vec<T> {} impl From<S> for String {} impl Clone for Foreign {}
         impl Debug for dyn R {} #[doc(hidden)] impl Eq for S {}
         impl Iterator for S { type Item = u8; fn next(&mut self) {} }",
        &[
            "pub trait c::R",
            "impl Debug for dyn R",
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
fn impl_belongs_to_the_type_of_its_module() {
    check(
        "pub mod a { pub struct S; } pub mod b { pub struct S; mod m { impl Clone for super::S {} } }",
        &[
            "pub mod c::a",
            "pub struct c::a::S;",
            "pub mod c::b",
            "pub struct c::b::S;",
            "impl Clone for c::b::S",
        ],
    );
}

#[test]
fn private_type_does_not_hide_a_foreign_trait_of_its_name() {
    check(
        "pub struct S; mod a { struct Error; } impl std::error::Error for S {}",
        &["pub struct c::S;", "impl Error for c::S"],
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
        "#[cfg(feature = \"x\")] mod a {
           pub fn f() {} #[cfg(unix)] pub fn g() {} #[cfg(feature = \"x\")] pub fn h() {} }",
        &[
            "#[cfg(feature = \"x\")] pub fn c::f()",
            "#[cfg(feature = \"x\")] #[cfg(unix)] pub fn c::g()",
            "#[cfg(feature = \"x\")] pub fn c::h()",
        ],
    );
    check(
        "#[cfg(unix)] #[derive(Clone)] pub struct S { pub a: u8 }
         #[cfg(unix)] impl S { pub fn f() {} } #[cfg(unix)] impl Eq for S {}",
        &[
            "#[cfg(unix)] pub struct c::S",
            "#[cfg(unix)] impl Eq for c::S",
            "#[cfg(unix)] pub c::S::a: u8",
            "#[cfg(unix)] pub fn c::S::f()",
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
        "#[cfg(unix)] mod a { pub trait T: Send {} } #[cfg(not(unix))] mod a { pub trait T {} }",
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
