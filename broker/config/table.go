package config

// Sort is what a setting's values are.
type Sort int

const (
	Text     Sort = iota // a string that follows a rule of its own, or a secret, or a path
	Count                // a whole number
	Duration             // "10s", "7d"; counted in nanoseconds
	Bytes                // "64KiB", or a number of bytes
	Switch               // true or false
	Word                 // one of a few
)

// Form is the values a setting accepts, as far as others than this package (the
// chart's schema) can check them as well.
type Form struct {
	Sort      Sort
	Low, High int64    // of Count, Duration and Bytes, inclusive
	Zero      bool     // 0 is accepted too, below Low
	Words     []string // of Word
	List      bool     // a list of such values
}

// Row is all that is known about one setting.
type Row struct {
	Key      string // path below modules.uns
	Default  string // as it is written; "" for none
	Accepted string // in words, as in errors and in the reference
	Unit     string
	Meaning  string
	Secret   bool // has a <key>_file form as well
	Form     Form
	Elements []Row // of a list of mappings; keys below the element
}

// Rows is the table of settings, in the order of the reference.
func Rows() []Row { return rows(settings()) }

func rows[T any](table []setting[T]) []Row {
	all := make([]Row, 0, len(table))
	for _, s := range table {
		all = append(all, Row{Key: s.key, Default: s.initial, Accepted: s.allowed, Unit: s.unit, Meaning: s.doc, Secret: s.secret, Form: s.form, Elements: elements(s.rows)})
	}
	return all
}

func elements(table []setting[Issuer]) []Row {
	if len(table) == 0 {
		return nil
	}
	return rows(table)
}
