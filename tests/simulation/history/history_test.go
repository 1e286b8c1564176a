package history_test

import (
	"sync"
	"testing"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/historian/historiantest"
	"maestrohub.io/uns/tests/simulation/history"
	"maestrohub.io/uns/tests/simulation/store"
)

func TestAHistoryKeepsTheLawsOfAHistorian(t *testing.T) {
	stores := map[string]*history.History{}
	var flights sync.WaitGroup
	historiantest.Run(t, func(_ *testing.T, name string) historian.Historian {
		if stores[name] == nil {
			stores[name] = history.New()
		}
		return stores[name].Client("replica", store.NewDice(1), store.Span{}, 0, &flights)
	})
}
