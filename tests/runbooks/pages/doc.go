// Package pages reads the Markdown pages that people follow, as the tests see them that
// run what the pages say: fenced blocks, each with the test that runs it or the reason why
// none does. The convention stands in runbooks/README.md, under "How a page is made".
package pages
