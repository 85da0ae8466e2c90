// enviar.go URL CHAVE
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

type answer struct {
	Code, Message string
	ProposalID    string `json:"proposal_id"`
	Proposals     []struct {
		OfferID string `json:"offerId"`
	}
}

var client = &http.Client{Timeout: time.Minute}

func post(url, key string, body []byte) (told answer) {
	call, err := http.NewRequest("POST", url, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	call.Header.Set("X-Partner-Api-Key", key)
	call.Header.Set("Content-Type", "application/json")
	response, err := client.Do(call)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&told); err != nil {
		log.Fatal(err)
	}
	if response.StatusCode >= 300 {
		log.Fatalf("%s: %s", told.Code, told.Message)
	}
	return told
}

func read(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		log.Fatal(err)
	}
	return string(text)
}

func main() {
	api, key := os.Args[1]+"/partners/v1", os.Args[2]
	found := post(api+"/consultas", key, []byte(read("consulta.json")))
	proposal := strings.ReplaceAll(read("proposta.json"), "<offerId>", found.Proposals[0].OfferID)
	fmt.Println(post(api+"/proposals", key, []byte(proposal)).ProposalID)
}
