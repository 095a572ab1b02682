package postgres_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/symbols"
)

func ExampleNew() {
	config, err := pgxpool.ParseConfig("postgres://canvasback:secret@db1,db2/app")
	if err != nil {
		log.Fatal(err)
	}
	postgres.ConfigurePool(config)
	ctx := context.Background()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	db, err := postgres.New(pool, &postgres.Options{Schema: "canvasback"})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	service, err := symbols.NewService(db.Symbols(), nil)
	if err != nil {
		log.Fatal(err)
	}
	folder, err := service.CreateFolder(ctx, "Valves")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(folder.ID, folder.Name)
}
