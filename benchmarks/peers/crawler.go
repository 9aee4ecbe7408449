// The script in Go: net/http and goquery, 64 goroutines, rows 100 a statement by lib/pq. As
// asyncio_script.py: no retries, no limits on what a page may be, nothing that outlives the process.
// Written for Go 1.19 and goquery 1.1, which Debian 12 has.
package main

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/PuerkitoBio/goquery"
	_ "github.com/lib/pq"
)

const batch = 100

var (
	shop   = os.Getenv("BENCH_SHOP")
	last   = regexp.MustCompile(`of (\d+)`)
	number = regexp.MustCompile(`/p/(\d+)`)
)

type row struct{ id, url, data string }

func main() {
	concurrency, _ := strconv.Atoi(os.Getenv("BENCH_CONCURRENCY"))
	database, err := sql.Open("postgres", os.Getenv("BENCH_DATABASE")+"&sslmode=disable")
	if err != nil || database.Ping() != nil {
		log.Fatal("no database: ", err, database.Ping())
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: concurrency}}
	pages, rows := make(chan string, 1<<20), make(chan row, batch)
	var open, writing sync.WaitGroup
	writing.Add(1)
	go func() { defer writing.Done(); write(database, rows) }()
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')

	open.Add(1)
	pages <- shop + "/all?page=1"
	for i := 0; i < concurrency; i++ {
		go func() {
			for page := range pages {
				crawl(client, page, func(more string) { open.Add(1); pages <- more }, rows)
				open.Done()
			}
		}()
	}
	open.Wait()
	close(rows)
	writing.Wait()
}

func crawl(client *http.Client, page string, add func(string), rows chan<- row) {
	response, err := client.Get(page)
	if err != nil {
		log.Print(err)
		return
	}
	defer response.Body.Close()
	document, err := goquery.NewDocumentFromReader(response.Body)
	if err != nil || response.StatusCode != 200 {
		log.Print(page, response.Status, err)
		return
	}
	if id := number.FindStringSubmatch(page); id != nil {
		fields := read(document)
		data, _ := json.Marshal(fields)
		rows <- row{id[1], page, strings.ReplaceAll(string(data), `\u0000`, "")}
		return
	}
	if strings.HasSuffix(page, "?page=1") {
		count := last.FindStringSubmatch(document.Find(".pager .count").First().Text())
		all, _ := strconv.Atoi(count[1])
		for n := 2; n <= all; n++ {
			add(fmt.Sprintf("%s/all?page=%d", shop, n))
		}
	}
	base, _ := url.Parse(page)
	document.Find("a.product-link").Each(func(_ int, link *goquery.Selection) {
		if target, err := base.Parse(link.AttrOr("href", "")); err == nil {
			add(target.String())
		}
	})
}

func read(document *goquery.Document) map[string]interface{} {
	if os.Getenv("BENCH_READ") == "jsonld" {
		return ofJSONLD(document)
	}
	text := func(css string) interface{} {
		if found := document.Find(css); found.Length() > 0 {
			return found.First().Text()
		}
		return nil
	}
	texts := func(css string) []string {
		return document.Find(css).Map(func(_ int, one *goquery.Selection) string { return one.Text() })
	}
	return map[string]interface{}{
		"title":  text("title"),
		"name":   text("h1"),
		"image":  document.Find(`meta[property="og:image"]`).First().AttrOr("content", ""),
		"price":  text(".price"),
		"crumbs": texts(".breadcrumb a"),
		"pictures": document.Find(".gallery img").Map(func(_ int, one *goquery.Selection) string {
			return one.AttrOr("src", "")
		}),
		"cells":       texts("table td"),
		"description": text(".description p"),
	}
}

func ofJSONLD(document *goquery.Document) (fields map[string]interface{}) {
	document.Find(`script[type="application/ld+json"]`).EachWithBreak(func(_ int, one *goquery.Selection) bool {
		var block interface{}
		if json.Unmarshal([]byte(one.Text()), &block) != nil {
			return true
		}
		things, many := block.([]interface{})
		if !many {
			things = []interface{}{block}
		}
		for _, thing := range things {
			product, _ := thing.(map[string]interface{})
			if product["@type"] != "Product" {
				continue
			}
			offer, _ := product["offers"].(map[string]interface{})
			brand := product["brand"]
			if named, ok := brand.(map[string]interface{}); ok {
				brand = named["name"]
			}
			fields = map[string]interface{}{
				"name": product["name"], "price": offer["price"], "currency": offer["priceCurrency"],
				"brand": brand, "sku": product["sku"], "gtin": product["gtin13"],
				"availability": offer["availability"], "description": product["description"],
			}
			return false
		}
		return true
	})
	return fields
}

func write(database *sql.DB, rows <-chan row) {
	var waiting []row
	flush := func() {
		if len(waiting) == 0 {
			return
		}
		var places []string
		var values []interface{}
		for i, one := range waiting {
			places = append(places, fmt.Sprintf("($%d, $%d, $%d)", 3*i+1, 3*i+2, 3*i+3))
			values = append(values, one.id, one.url, one.data)
		}
		statement := "INSERT INTO " + os.Getenv("BENCH_TABLE") + " (external_id, url, data) VALUES " +
			strings.Join(places, ", ") + " ON CONFLICT (external_id) DO UPDATE SET url = excluded.url, " +
			"data = excluded.data, fetched_at = now()"
		if _, err := database.Exec(statement, values...); err != nil {
			log.Fatal(err)
		}
		waiting = waiting[:0]
	}
	for one := range rows {
		if waiting = append(waiting, one); len(waiting) >= batch {
			flush()
		}
	}
	flush()
}
