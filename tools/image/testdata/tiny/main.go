// Command tiny is what the image tests package.
package main

var release = "none"

func main() { println(release) }
