// SPDX-License-Identifier: GPL-2.0-only
use super::*;

const C: &str = "enum kind { K_A, K_B };\n#define ONE 1\n#define TWO 2\n
TAKT_INLINE u32 f(struct pool *p, u32 i)
{
	u32 n = 10ULL;

	TAKT_LOOP(p, i, n)
		step(p, i);
	if (p->a < n && p->b == K_A) /* why */
		p->c += 2;
	return p->a < n && p->b == K_A ? ONE : 0;
}
";
const RUST: &str = "impl<T> Set<T> {
    pub fn put(&mut self, n: u32) -> Result<()> {
        ensure!(n < 8 && n != 3, \"{n}: too many\");
        self.n += 1;
        Ok(())
    }
}
#[cfg(test)]
mod tests {
    fn put() { a += 1; }
}
";

fn sources(path: &str, text: &str) -> Sources {
    let source = Source::parse(path, text.into()).expect("source");
    let mut names = Names::new();
    source.names(&mut names);
    Sources::of(&DIRECTORIES[0], vec![source], &names)
}

fn entry(text: &str) -> Entry {
    toml::from_str(&format!("name = \"x\"\nwhy = \"\"\n{text}")).expect("entry")
}

#[track_caller]
fn becomes(s: &Sources, text: &str, line: &str) {
    let m = s.resolve(&entry(text)).expect("one place");
    assert!(m.diff().lines().any(|l| l.trim_start_matches("    +").trim() == line), "{}", m.diff());
}

#[test]
fn operators_change_c() {
    let s = sources("a.c", C);
    becomes(&s, "fn = 'f'\nop = 'drop'\nat = 'step'", ";");
    becomes(&s, "fn = 'f'\nop = 'never'\nat = 'p->b == K_A'\nnth = 1", "if (0) /* why */");
    becomes(&s, "fn = 'f'\nop = 'operand'\nat = 'p->a < n'\nnth = 1", "if (p->b == K_A) /* why */");
    becomes(&s, "fn = 'f'\nop = 'operand'\nat = 'p->b == K_A'\nnth = 2", "return p->a < n ? ONE : 0;");
    becomes(&s, "fn = 'f'\nop = 'compare'\nat = 'p->a < n'\nnth = 1", "if (p->a <= n && p->b == K_A) /* why */");
    becomes(&s, "fn = 'f'\nop = 'enumerator'\nat = 'ONE'", "return p->a < n && p->b == K_A ? TWO : 0;");
    becomes(&s, "fn = 'f'\nop = 'plus'\nat = 'n = 10ULL'", "u32 n = 11ULL;");
    becomes(&s, "fn = 'f'\nop = 'arith'\nat = 'p->c'", "p->c -= 2;");
    becomes(&s, "fn = 'f'\nop = 'return'", "{ return 0;");
    becomes(&s, "fn = 'f'\nfind = 'if(p->a<n&&p->b==K_A) p'\nreplace = 'p'", "p->c += 2;");
}

#[test]
fn what_only_the_verifier_needs_is_left_alone() {
    let dropped = |statement: &str| {
        let s = sources("a.c", &format!("void f(void)\n{{\n\t{statement}\n}}\n"));
        s.all().iter().any(|m| m.name == "drop")
    };
    for same in
        ["n = takt_fresh(p, n);", "p->a = takt_fresh_long(\n\t\tp, p->a);", "takt_opaque(n);", "mask_fresh(p, &m);"]
    {
        assert!(!dropped(same), "{same}");
    }
    for other in ["n = takt_fresh(p, m);", "n = takt_fresh(p, n + 1);", "n += takt_fresh(p, n);", "takt_fresh(p, n());"]
    {
        assert!(dropped(other), "{other}");
    }
}

#[test]
fn operators_change_rust() {
    let s = sources("a.rs", RUST);
    becomes(&s, "fn = 'Set::put'\nop = 'drop'\nat = 'self.n'", "");
    becomes(&s, "fn = 'put'\nop = 'always'", "ensure!(true, \"{n}: too many\");");
    becomes(&s, "fn = 'put'\nop = 'operand'\nat = 'n != 3'", "ensure!(n < 8, \"{n}: too many\");");
    becomes(&s, "fn = 'put'\nop = 'minus'\nat = 'n < 8'", "ensure!(n < 7 && n != 3, \"{n}: too many\");");
}

#[test]
fn an_entry_that_means_nothing_or_several_things_is_named() {
    let s = sources("a.c", C);
    for (text, says) in [
        ("fn = 'f'\nop = 'never'", "2 places match"),
        ("fn = 'f'\nop = 'never'\nnth = 3", "`nth` must be between 1 and 2 (got 3)"),
        ("fn = 'f'\nop = 'drop'\nat = 'stop'", "0 places match"),
        ("fn = 'g'\nop = 'drop'", "no such function"),
        ("fn = 'f'\nop = 'mend'", "must be one of drop, always"),
        ("fn = 'f'\nfind = 'p->a < n'\nreplace = '0'", "`find` matches 2 places"),
        ("fn = 'g'\nfind = 'n'\nreplace = '0'", "there is no such function"),
        ("fn = 'f'\nop = 'drop'\nfind = 'n'\nreplace = '0'", "must have `op`, or `find` and `replace`"),
    ] {
        let said = format!("{:#}", s.resolve(&entry(text)).expect_err(text));
        assert!(said.starts_with("x: ") && said.contains(says), "{said}");
    }
}

#[test]
fn samples_are_the_same_for_the_same_seed() {
    let places = |seed| sample(sources("a.c", C).all(), 5, seed).iter().map(Mutation::diff).collect::<Vec<_>>();
    assert_eq!(places(1), places(1));
    assert_ne!(places(1), places(2));
}

#[test]
fn operators_make_each_change_once() {
    for s in [sources("a.c", C), sources("a.rs", RUST)] {
        let mut all: Vec<_> = s.all().into_iter().map(|m| m.text).collect();
        let made = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), made);
        assert!(made > 10);
    }
}
