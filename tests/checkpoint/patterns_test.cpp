// Patterns of --ignore and of the list `ignore`: an expression means what it means to Python's re,
// or is refused.
#include "checkpoint/patterns.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/failure.hpp"

namespace rowscale::checkpoint {
namespace {

TEST(Patterns, MatchAsPythonsReMatches) {
  struct Case {
    const char* pattern;
    const char* name;
    bool fits;
  };
  const Case cases[] = {
      {"lm_head", "lm_head", true},
      {"lm_head", "lm_head.x", false},    // a name is the whole name
      {"re:lm_head", "lm_head.x", true},  // anchored at the start alone
      {"re:head", "lm_head", false},
      {"re:.*mlp.gate", "a.mlp.gate_proj", true},
      {"re:.*mlp.gate$", "a.mlp.gate_proj", false},
      {"re:.*\\.(?:q|k)_proj$", "a.q_proj", true},
      {"re:(?P<x>a+)b(?P=x)", "aabaa", true},
      {"re:\\w+$", "gew\xC3\xBCrz", true},  // Unicode, as str patterns are
      {"re:.{3}$", "\xC3\xA4\xC3\xB6\xC3\xBC", true},
      {"re:model\\.layers\\.(1[0-9]|2)\\.", "model.layers.2.x", true},
  };
  for (const Case& c : cases) {
    Patterns patterns({c.pattern}, "--ignore");
    EXPECT_EQ(patterns.match(c.name), c.fits) << c.pattern << " " << c.name;
  }
}

// Python raises re.error for these, or gives another match than PCRE2: each was compiled with
// Python 3.11, and the quantifiers, of which 3.11 knows more, with 3.10.
TEST(Patterns, RefuseWhatPythonReadsDifferently) {
  for (const char* pattern :
       {"(",           "a{,3}",    "[[:alpha:]]", "a\\Z",     "\\Qa.b\\E",  "(?R)",
        "\\h",         "(*FAIL)",  "(?|a|b)",     "(?<n>a)",  "(?'n'a)",    "a(?i)b",
        "(?-i)a",      "(a)(?2)?", "(a)(?1)",     "(a)(?-1)", "(?+1)(a)",   "(?&n)",
        "a++",         "a*+",      "a?+",         "a{1,2}+",  "a{2}{3}",    "(?>a)",
        "(?U)a",       "(?J)a",    "(?^)a",       "(?xx)a",   "(?<=a|bc)d", "\\x4",
        "\\x{41}",     "\\cA",     "\\o{101}",    "(a)\\11",  "(?(R)a|b)",  "(?(DEFINE)a)",
        "(?(?=a)a|b)", "(?C1)a",   "[\\h]",       "[]a\\h]",  "\\p{L}",     "\\k<n>"}) {
    try {
      const Patterns patterns({"re:" + std::string(pattern)}, "--ignore");
      ADD_FAILURE() << pattern << " was accepted";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), FailureKind::usage);
      EXPECT_EQ(std::string(failure.what()).find("--ignore \"re:"), 0U) << failure.what();
    }
  }
}

TEST(Patterns, TakeWhatBothReadAlike) {
  for (const char* pattern : {"a\\\\h[{,]x\\.\\d",
                              "(?:a|b)+?",
                              "(?i)A",
                              "(?i:A)b",
                              "(?=a)a",
                              "(?!b)a",
                              "(?<=a)b",
                              "(?<!a)b",
                              "(?P<n>a)(?P=n)",
                              "(a)?(?(1)b|c)",
                              "a(?#note)b",
                              "a{2}",
                              "a{2,}?",
                              "a{1,3}",
                              "[]]",
                              "[^]+?]",
                              "[a+*?]+",
                              "\\x41",
                              "(a)\\1",
                              "\\++",
                              "[(?|]",
                              "a{x}",
                              "(?s).",
                              "(a+)*"}) {
    EXPECT_NO_THROW(Patterns({"re:" + std::string(pattern)}, "--ignore")) << pattern;
  }
}

TEST(Patterns, EndWhatWouldNot) {
  EXPECT_THROW(Patterns({"nothing"}, "--ignore").require_all_used(), Failure);
  // An expression that would never end is an error, not a hang.
  Patterns slow({"re:(a+)+$"}, "--ignore");
  EXPECT_THROW(slow.match(std::string(64, 'a') + "!"), Failure);
}

}  // namespace
}  // namespace rowscale::checkpoint
