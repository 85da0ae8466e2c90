// receber.go PORTA   (SEGREDOS no ambiente)
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func isGenuine(header http.Header, body []byte) bool {
	sentAt := header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(sentAt, 10, 64)
	if err != nil || math.Abs(float64(time.Now().Unix()-seconds)) > 300 {
		return false
	}
	for _, secret := range strings.Fields(os.Getenv("SEGREDOS")) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			log.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", header.Get("webhook-id"), sentAt)
		mac.Write(body)
		expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for _, given := range strings.Fields(header.Get("webhook-signature")) {
			if hmac.Equal([]byte(expected), []byte(given)) {
				return true
			}
		}
	}
	return false
}

func keep(id string, body []byte) error {
	draft, err := os.CreateTemp("eventos", "*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	_, err = draft.Write(body)
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	err = os.Link(draft.Name(), "eventos/"+id+".json")
	if errors.Is(err, fs.ErrExist) {
		return nil // uma repetição
	}
	if err == nil {
		fmt.Println("novo", id)
	}
	return err
}

func receive(answer http.ResponseWriter, call *http.Request) {
	body, err := io.ReadAll(call.Body)
	if err != nil || !isGenuine(call.Header, body) {
		answer.WriteHeader(http.StatusUnauthorized)
	} else if err := keep(call.Header.Get("webhook-id"), body); err != nil {
		answer.WriteHeader(http.StatusInternalServerError)
	} else {
		answer.WriteHeader(http.StatusNoContent)
	}
}

func main() {
	if err := os.MkdirAll("eventos", 0o755); err != nil {
		log.Fatal(err)
	}
	server := http.Server{Addr: ":" + os.Args[1], Handler: http.HandlerFunc(receive), ReadTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}
