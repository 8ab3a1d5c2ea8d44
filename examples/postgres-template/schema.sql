CREATE TABLE books (
  id serial PRIMARY KEY,
  title text NOT NULL,
  pages int NOT NULL
);

INSERT INTO books (title, pages) SELECT 'Volume ' || n, 100 + n % 400 FROM generate_series(1, 50000) n;

CREATE INDEX books_title ON books (title);

VACUUM ANALYZE;

