import CipherDatabase
import Testing

@testable import CipherRecords

@Suite("Requests with associations become SQL")
struct AssociationRequestTests {
    private typealias Author = Library.Author
    private typealias Award = Library.Award
    private typealias Book = Library.Book
    private typealias Copy = Library.Copy
    private typealias Country = Library.Country
    private typealias Letter = Library.Letter
    private typealias Person = Library.Person

    private func requests() -> RequestTable { RequestTable(Library.tables, sql: Library.sql) }

    @Test("joined tables, with and without their columns")
    func joins() throws {
        let table = requests()
        table(
            Book.including(required: Book.author),
            #"SELECT "book".*, "author".* FROM "book" JOIN "author" ON "author"."id" = "book"."authorId""#)
        table(
            Book.including(optional: Book.author),
            #"SELECT "book".*, "author".* FROM "book" LEFT JOIN "author" ON "author"."id" = "book"."authorId""#)
        table(
            Book.joining(required: Book.author),
            #"SELECT "book".* FROM "book" JOIN "author" ON "author"."id" = "book"."authorId""#)
        table(
            Book.all().joining(optional: Book.author).order(Column("title")),
            #"SELECT "book".* FROM "book" LEFT JOIN "author" ON "author"."id" = "book"."authorId" "#
                + #"ORDER BY "book"."title""#)
        table(
            Author.including(required: Author.books),
            #"SELECT "author".*, "book".* FROM "author" JOIN "book" ON "book"."authorId" = "author"."id""#)
        table(
            Author.including(optional: Author.profile),
            #"SELECT "author".*, "profile".* FROM "author" LEFT JOIN "profile" ON "profile"."authorId" = "author"."id""#
        )
        table(
            Table<Book>("book").including(required: Book.author),
            #"SELECT "book".*, "author".* FROM "book" JOIN "author" ON "author"."id" = "book"."authorId""#)
        table(
            Copy.including(required: Copy.shelf),
            #"SELECT "copy".*, "shelf".* FROM "copy" JOIN "shelf" ON ("shelf"."room" = "copy"."shelfRoom") "#
                + #"AND ("shelf"."row" = "copy"."shelfRow")"#)
        table(
            Book.including(required: Book.author.including(optional: Author.country)),
            #"SELECT "book".*, "author".*, "country".* FROM "book" JOIN "author" ON "author"."id" = "book"."authorId" "#
                + #"LEFT JOIN "country" ON "country"."code" = "author"."countryCode""#)
        table(
            Author.including(all: Author.books), #"SELECT * FROM "author""#)
        try table.check()
    }

    @Test("filters of an association stand in ON, those of the request in WHERE, orders follow each other")
    func filters() throws {
        let table = requests()
        table(
            Book.including(required: Book.author.filter { $0.countryCode == "FR" }),
            #"SELECT "book".*, "author".* FROM "book" JOIN "author" ON ("author"."id" = "book"."authorId") "#
                + #"AND ("author"."countryCode" = 'FR')"#)
        table(
            Book.filter { $0.year > 1900 }.order { $0.year.desc }
                .joining(required: Book.author.order { $0.name }),
            #"SELECT "book".* FROM "book" JOIN "author" ON "author"."id" = "book"."authorId" "#
                + #"WHERE "book"."year" > 1900 ORDER BY "book"."year" DESC, "author"."name""#)
        let author = TableAlias<Author>()
        table(
            Book.joining(required: Book.author.aliased(author)).filter(author.name == "Joyce").order(author.name),
            #"SELECT "book".* FROM "book" JOIN "author" ON "author"."id" = "book"."authorId" "#
                + #"WHERE "author"."name" = 'Joyce' ORDER BY "author"."name""#)
        let named = TableAlias<Author>(name: "a")
        table(
            Book.joining(optional: Book.author.aliased(named)).filter(!named.exists),
            #"SELECT "book".* FROM "book" LEFT JOIN "author" "a" ON "a"."id" = "book"."authorId" "#
                + #"WHERE "a"."id" IS NULL"#)
        table(
            Book.including(required: Book.author.select { $0.name }),
            #"SELECT "book".*, "author"."name" FROM "book" JOIN "author" ON "author"."id" = "book"."authorId""#)
        table(
            Book.annotated(withRequired: Book.author.select { $0.name }),
            #"SELECT "book".*, "author"."name" FROM "book" JOIN "author" ON "author"."id" = "book"."authorId""#)
        table(
            Book.annotated(withOptional: Book.author.select { $0.name.forKey("authorName") }),
            #"SELECT "book".*, "author"."name" AS "authorName" FROM "book" "#
                + #"LEFT JOIN "author" ON "author"."id" = "book"."authorId""#)
        try table.check()
    }

    @Test("an association through another one joins both tables")
    func through() throws {
        let table = requests()
        table(
            Book.including(required: Book.country),
            #"SELECT "book".*, "country".* FROM "book" JOIN "author" ON "author"."id" = "book"."authorId" "#
                + #"JOIN "country" ON "country"."code" = "author"."countryCode""#)
        table(
            Book.including(optional: Book.country).joining(required: Book.author),
            #"SELECT "book".*, "country".* FROM "book" JOIN "author" ON "author"."id" = "book"."authorId" "#
                + #"LEFT JOIN "country" ON "country"."code" = "author"."countryCode""#)
        table(
            Author.joining(required: Author.awards),
            #"SELECT "author".* FROM "author" JOIN "book" ON "book"."authorId" = "author"."id" "#
                + #"JOIN "award" ON "award"."bookId" = "book"."id""#)
        table(
            Book.joining(required: Book.siblings),
            #"SELECT "book1".* FROM "book" "book1" JOIN "author" ON "author"."id" = "book1"."authorId" "#
                + #"JOIN "book" "book2" ON "book2"."authorId" = "author"."id""#)
        try table.check()
    }

    @Test("a table joined to itself, and twice to another one")
    func selfJoins() throws {
        let table = requests()
        table(
            Person.including(optional: Person.parent),
            #"SELECT "person1".*, "person2".* FROM "person" "person1" "#
                + #"LEFT JOIN "person" "person2" ON "person2"."id" = "person1"."parentId""#)
        table(
            Person.joining(required: Person.parent.joining(required: Person.parent)),
            #"SELECT "person1".* FROM "person" "person1" JOIN "person" "person2" ON "person2"."id" = "person1"."parentId" "#
                + #"JOIN "person" "person3" ON "person3"."id" = "person2"."parentId""#)
        table(
            Letter.joining(required: Letter.sender).including(required: Letter.recipient),
            #"SELECT "letter".*, "person2".* FROM "letter" JOIN "person" "person1" "#
                + #"ON "person1"."id" = "letter"."senderId" "#
                + #"JOIN "person" "person2" ON "person2"."id" = "letter"."recipientId""#)
        try table.check()
    }

    @Test("the same association joined twice is joined once")
    func merging() throws {
        let table = requests()
        table(
            Book.joining(optional: Book.author.filter { $0.name == "a" })
                .including(required: Book.author.filter { $0.id == 1 }.order { $0.id })
                .joining(optional: Book.author),
            #"SELECT "book".*, "author".* FROM "book" JOIN "author" ON ("author"."id" = "book"."authorId") "#
                + #"AND ("author"."name" = 'a') AND ("author"."id" = 1) ORDER BY "author"."id""#)
        let (one, two) = (TableAlias<Author>(), TableAlias<Author>())
        table(
            Book.joining(required: Book.author.aliased(one)).joining(required: Book.author.aliased(two))
                .filter(one.name == two.name),
            #"SELECT "book".* FROM "book" JOIN "author" ON "author"."id" = "book"."authorId" "#
                + #"WHERE "author"."name" = "author"."name""#)
        try table.check()
    }

    @Test("rows of joined requests are counted, deleted and looked for")
    func otherStatements() throws {
        let table = requests()
        let request = Book.joining(required: Book.author.filter { $0.name == "Joyce" })
        let join =
            #"JOIN "author" ON ("author"."id" = "book"."authorId") AND ("author"."name" = 'Joyce')"#
        table.count(request, #"SELECT COUNT(*) FROM (SELECT "book".* FROM "book" \#(join))"#)
        table.exists(request, #"SELECT EXISTS (SELECT "book".* FROM "book" \#(join))"#)
        table.delete(
            request, #"DELETE FROM "book" WHERE "id" IN (SELECT "book"."id" FROM "book" \#(join))"#)
        table.one(
            Book.including(optional: Book.author).filter(key: 1),
            #"SELECT "book".*, "author".* FROM "book" LEFT JOIN "author" ON "author"."id" = "book"."authorId" "#
                + #"WHERE "book"."id" = 1 LIMIT 1"#)
        table.count(Author.including(all: Author.books), #"SELECT COUNT(*) FROM "author""#)
        table(
            Author.filter(Author.including(all: Author.books).exists()),
            #"SELECT * FROM "author" WHERE EXISTS (SELECT * FROM "author")"#)
        try table.check()
    }

    @Test("the rows of one record")
    func requestsFor() throws {
        let table = requests()
        let author = Author(id: 1, name: "Proust", countryCode: nil)
        let book = Book(id: 2, title: "Swann", year: 1913, authorId: 1)
        table(author.request(for: Author.books), #"SELECT * FROM "book" WHERE "authorId" = 1"#)
        table(
            author.request(for: Author.books.filter { $0.year > 1900 }).order(Column("title")),
            #"SELECT * FROM "book" WHERE ("year" > 1900) AND ("authorId" = 1) ORDER BY "title""#)
        table(book.request(for: Book.author), #"SELECT * FROM "author" WHERE "id" = 1"#)
        table(author.request(for: Author.country), #"SELECT * FROM "country" WHERE 0"#)
        table(
            author.request(for: Author.awards),
            #"SELECT "award".* FROM "award" JOIN "book" ON ("book"."id" = "award"."bookId") AND ("book"."authorId" = 1)"#
        )
        table(
            Award(id: 1, name: "", bookId: 3).request(for: Award.author),
            #"SELECT "author".* FROM "author" JOIN "book" ON ("book"."authorId" = "author"."id") AND ("book"."id" = 3)"#
        )
        table(
            Copy(id: 1, shelfRoom: "a", shelfRow: 2).request(for: Copy.shelf),
            #"SELECT * FROM "shelf" WHERE ("room" = 'a') AND ("row" = 2)"#)
        table(
            Person(id: 1, name: "", parentId: 7).request(for: Person.children),
            #"SELECT * FROM "person" WHERE "parentId" = 1"#)
        try table.check()
    }

    @Test("aggregates of associations")
    func aggregates() throws {
        let table = requests()
        let from =
            #"FROM "author" LEFT JOIN "book" ON "book"."authorId" = "author"."id" GROUP BY "author"."id""#
        func annotated(_ aggregate: AssociationAggregate<Author>, _ sql: String, at location: SourceLocation) {
            table(Author.annotated(with: aggregate), #"SELECT "author".*, \#(sql) \#(from)"#, at: location)
        }
        func having(_ aggregate: AssociationAggregate<Author>, _ sql: String, at location: SourceLocation) {
            table(Author.having(aggregate), #"SELECT "author".* \#(from) HAVING \#(sql)"#, at: location)
        }
        let here = #_sourceLocation
        let (books, year) = (Author.books, Column("year"))
        annotated(books.count, #"COUNT(DISTINCT "book"."id") AS "bookCount""#, at: here)
        annotated(books.isEmpty, #"COUNT(DISTINCT "book"."id") = 0 AS "hasNoBook""#, at: here)
        annotated(books.min(year), #"MIN("book"."year") AS "minBookYear""#, at: here)
        annotated(books.max { $0.year }, #"MAX("book"."year") AS "maxBookYear""#, at: here)
        annotated(books.average(year), #"AVG("book"."year") AS "averageBookYear""#, at: here)
        annotated(books.sum(year), #"SUM("book"."year") AS "bookYearSum""#, at: here)
        annotated(books.total(year), #"TOTAL("book"."year") AS "bookYearSum""#, at: here)
        annotated(books.max(year + 1), #"MAX("book"."year" + 1)"#, at: here)
        annotated(books.count.forKey("n"), #"COUNT(DISTINCT "book"."id") AS "n""#, at: here)
        annotated(books.count + 1, #"COUNT(DISTINCT "book"."id") + 1"#, at: here)
        annotated(books.max(year) ?? 0, #"IFNULL(MAX("book"."year"), 0) AS "maxBookYear""#, at: here)
        annotated(cast(books.count, as: .real), #"CAST(COUNT(DISTINCT "book"."id") AS REAL) AS "bookCount""#, at: here)
        annotated(
            books.max(year) - books.min(year), #"MAX("book"."year") - MIN("book"."year")"#, at: here)
        having(books.isEmpty, #"COUNT(DISTINCT "book"."id") = 0"#, at: here)
        having(!books.isEmpty, #"COUNT(DISTINCT "book"."id") > 0"#, at: here)
        having(books.isEmpty == false, #"COUNT(DISTINCT "book"."id") > 0"#, at: here)
        having(books.isEmpty == true, #"COUNT(DISTINCT "book"."id") = 0"#, at: here)
        having(books.count > 2, #"COUNT(DISTINCT "book"."id") > 2"#, at: here)
        having(books.count == 2, #"COUNT(DISTINCT "book"."id") = 2"#, at: here)
        having(books.max(year) != nil, #"MAX("book"."year") IS NOT NULL"#, at: here)
        having(
            books.count > 2 && books.max(year) < 1900,
            #"(COUNT(DISTINCT "book"."id") > 2) AND (MAX("book"."year") < 1900)"#, at: here)
        having(
            books.count > books.max(year) || books.isEmpty,
            #"(COUNT(DISTINCT "book"."id") > MAX("book"."year")) OR (COUNT(DISTINCT "book"."id") = 0)"#, at: here)
        table(
            Author.annotated(
                with: Author.books.filter { $0.year < 1900 }.forKey("oldBooks").count, Author.awards.count),
            #"SELECT "author".*, COUNT(DISTINCT "book1"."id") AS "oldBookCount", COUNT(DISTINCT "award"."id") AS "#
                + #""awardCount" FROM "author" LEFT JOIN "book" "book1" ON ("book1"."authorId" = "author"."id") AND "#
                + #"("book1"."year" < 1900) LEFT JOIN "book" "book2" ON "book2"."authorId" = "author"."id" "#
                + #"LEFT JOIN "award" ON "award"."bookId" = "book2"."id" GROUP BY "author"."id""#)
        try table.check()
    }

    @Test("aggregates of associations with a value on their left")
    func valuesBeforeAggregates() throws {
        let table = requests()
        let count = #"COUNT(DISTINCT "book"."id")"#
        let here = #_sourceLocation
        func having(_ aggregate: AssociationAggregate<Author>, _ sql: String) {
            table(
                Author.having(aggregate),
                #"SELECT "author".* FROM "author" LEFT JOIN "book" ON "book"."authorId" = "author"."id" "#
                    + #"GROUP BY "author"."id" HAVING \#(sql)"#, at: here)
        }
        let books = Author.books
        having(2 == books.count, "2 = \(count)")
        having(2 != books.count, "2 <> \(count)")
        having(nil == books.max { $0.year }, #"MAX("book"."year") IS NULL"#)
        having(nil != books.max { $0.year }, #"MAX("book"."year") IS NOT NULL"#)
        having(2 === books.count, "2 IS \(count)")
        having(2 !== books.count, "2 IS NOT \(count)")
        having(2 < books.count, "2 < \(count)")
        having(2 <= books.count, "2 <= \(count)")
        having(2 > books.count, "2 > \(count)")
        having(2 >= books.count, "2 >= \(count)")
        having(2 + books.count, "2 + \(count)")
        having(2 - books.count, "2 - \(count)")
        having(2 * books.count, "2 * \(count)")
        having(2 / books.count, "2 / \(count)")
        having(-books.count, "-\(count)")
        having(true && books.isEmpty, "1 AND (\(count) = 0)")
        having(false || books.isEmpty, "0 OR (\(count) = 0)")
        having(!(books.count > 3) || books.isEmpty, "(NOT (\(count) > 3)) OR (\(count) = 0)")
        having(true == books.isEmpty, "\(count) = 0")
        having(false == books.isEmpty, "\(count) > 0")
        having(books.isEmpty != true, "\(count) > 0")
        having(false != books.isEmpty, "\(count) = 0")
        having((books.count > 3) == true, "(\(count) > 3) = 1")
        having(false == (books.count > 3), "(\(count) > 3) = 0")
        having((books.count > 3) != true, "(\(count) > 3) <> 1")
        let custom = TableAlias<Book>(name: "custom")
        table(
            Author.annotated(with: books.count)
                .joining(required: books.aliased(custom).filter(sql: "custom.year < ?", arguments: [1900])),
            #"SELECT "author".*, COUNT(DISTINCT "custom"."id") AS "bookCount" FROM "author" "#
                + #"JOIN "book" "custom" ON ("custom"."authorId" = "author"."id") AND (custom.year < 1900) "#
                + #"GROUP BY "author"."id""#)
        table(
            Author.select(Column("name")).annotated(with: books.count).group(Column("name")),
            #"SELECT "author"."name", \#(count) AS "bookCount" FROM "author" "#
                + #"LEFT JOIN "book" ON "book"."authorId" = "author"."id" GROUP BY "author"."name""#)
        try table.check()
    }

    @Test("rows with keys of several columns and without a rowid are counted and looked for")
    func rowsWithoutRowID() throws {
        let table = requests()
        let join = #"LEFT JOIN "loan" ON "loan"."personId" = "person"."id""#
        let count =
            #"COUNT(DISTINCT CASE WHEN "loan"."personId" IS NOT NULL THEN quote("loan"."personId") || ',' || "#
            + #"quote("loan"."bookId") END)"#
        let loan = TableAlias<Library.Loan>()
        let person = TableAlias<Person>()
        table(
            Person.joining(optional: Person.loans.aliased(loan)).filter(loan.exists),
            #"SELECT "person".* FROM "person" \#(join) "#
                + #"WHERE ("loan"."personId" IS NOT NULL) OR ("loan"."bookId" IS NOT NULL)"#)
        table(
            Person.joining(optional: Person.loans.aliased(loan)).filter(!loan.exists),
            #"SELECT "person".* FROM "person" \#(join) "#
                + #"WHERE ("loan"."personId" IS NULL) AND ("loan"."bookId" IS NULL)"#)
        table(
            Library.Loan.joining(optional: Library.Loan.person.aliased(person)).filter(person.exists)
                .groupByPrimaryKey(),
            #"SELECT "loan".* FROM "loan" LEFT JOIN "person" ON "person"."id" = "loan"."personId" "#
                + #"WHERE "person"."id" IS NOT NULL GROUP BY "loan"."personId", "loan"."bookId""#)
        try table.check()
        try Library.queue().read { db in
            let request = Person.annotated(with: Person.loans.count, Person.loans.isEmpty).orderByPrimaryKey()
            let rows = try Row.fetchAll(db, request)
            #expect(rows.map { $0["loanCount"] as Int } == [2, 1, 0, 0])
            #expect(rows.map { $0["hasNoLoan"] as Bool } == [false, false, true, true])
            let text = try request.makePreparedRequest(db).statement.sql
            #expect(text.contains(count))
        }
    }

    @Test("a reversed order reverses that of joined tables, and an order can be taken away from all")
    func orders() throws {
        let table = requests()
        let author = Book.author.order { $0.name }
        let sql = #"SELECT "book".* FROM "book" JOIN "author" ON "author"."id" = "book"."authorId""#
        table(
            Book.order { $0.id }.joining(required: author).reversed(),
            sql + #" ORDER BY "book"."id" DESC, "author"."name" DESC"#)
        table(
            Book.order { $0.id }.joining(required: author.reversed()).reversed(),
            sql + #" ORDER BY "book"."id" DESC, "author"."name""#)
        table(
            Book.all().joining(required: Book.author.orderByPrimaryKey()).reversed(),
            sql + #" ORDER BY "author"."id" DESC"#)
        table(
            Copy.all().joining(required: Copy.shelf.orderByPrimaryKey()).reversed(),
            #"SELECT "copy".* FROM "copy" JOIN "shelf" ON ("shelf"."room" = "copy"."shelfRoom") "#
                + #"AND ("shelf"."row" = "copy"."shelfRow") ORDER BY "shelf"."room" DESC, "shelf"."row" DESC"#)
        table(Book.order { $0.id }.joining(required: author).unordered(), sql)
        table.count(Book.joining(required: author), "SELECT COUNT(*) FROM (\(sql))")
        // A table that is joined again is joined last.
        table(
            Letter.joining(required: Letter.sender).joining(required: Letter.recipient)
                .including(required: Letter.sender),
            #"SELECT "letter".*, "person2".* FROM "letter" "#
                + #"JOIN "person" "person1" ON "person1"."id" = "letter"."recipientId" "#
                + #"JOIN "person" "person2" ON "person2"."id" = "letter"."senderId""#)
        try table.check()
    }

    @Test("a condition of an association through another one, and associations of its rows")
    func throughWithJoins() throws {
        let table = requests()
        let author = Author(id: 1, name: "Proust", countryCode: nil)
        let awards = Author.hasMany(
            Award.self, through: Author.books.filter { $0.year > 1900 }.including(required: Book.author),
            using: Book.awards.joining(required: Award.book.filter { $0.title != "x" }))
        table(
            author.request(for: awards),
            #"SELECT "award".* FROM "award" JOIN "book" "book1" ON ("book1"."id" = "award"."bookId") "#
                + #"AND ("book1"."title" <> 'x') JOIN "book" "book2" ON ("book2"."id" = "award"."bookId") "#
                + #"AND ("book2"."year" > 1900) AND ("book2"."authorId" = 1) "#
                + #"JOIN "author" ON "author"."id" = "book2"."authorId""#)
        table(
            author.request(for: Author.awards).joining(required: Award.book),
            #"SELECT "award".* FROM "award" JOIN "book" "book1" ON ("book1"."id" = "award"."bookId") "#
                + #"AND ("book1"."authorId" = 1) JOIN "book" "book2" ON "book2"."id" = "award"."bookId""#)
        try table.check()
    }

    @Test("common table expressions are joined by a condition")
    func commonTables() throws {
        let table = requests()
        let latest = CommonTableExpression(
            named: "latest",
            request: Book.select(Column("authorId"), max(Column("year")).forKey("year")).group(Column("authorId")))
        let association = Author.association(to: latest) { author, latest in author["id"] == latest["authorId"] }
        let with =
            #"WITH "latest" AS (SELECT "authorId", MAX("year") AS "year" FROM "book" GROUP BY "authorId") "#
        table(
            Author.with(latest).joining(required: association),
            with + #"SELECT "author".* FROM "author" JOIN "latest" ON "author"."id" = "latest"."authorId""#)
        table(
            latest.all().with(latest).joining(
                optional: latest.association(to: Author.self) { latest, author in latest["authorId"] == author["id"] }),
            with + #"SELECT "latest".* FROM "latest" LEFT JOIN "author" ON "latest"."authorId" = "author"."id""#)
        let other = Author.association(to: latest) { author, latest in author["id"] > latest["authorId"] }
        table(
            Author.with(latest).joining(required: association).joining(optional: other),
            with + #"SELECT "author".* FROM "author" JOIN "latest" ON "author"."id" > "latest"."authorId""#)
        let plain = CommonTableExpression(named: "plain", columns: [], sql: "SELECT 1 AS a")
        table(
            Table<Author>("author").with(plain).with(latest).joining(
                required: Table<Author>("author").association(to: plain).joining(
                    required: plain.association(to: latest).joining(
                        required: latest.association(to: Book.self).joining(required: Book.author)))),
            #"WITH "plain" AS (SELECT 1 AS a), \#(with.dropFirst(5))SELECT "author1".* FROM "author" "author1" "#
                + #"JOIN "plain" JOIN "latest" JOIN "book" "#
                + #"JOIN "author" "author2" ON "author2"."id" = "book"."authorId""#)
        table(
            Book.joining(required: Book.author.with(latest).joining(required: association)),
            with
                + #"SELECT "book".* FROM "book" JOIN "author" ON "author"."id" = "book"."authorId" "#
                + #"JOIN "latest" ON "author"."id" = "latest"."authorId""#)
        try table.check()
    }

    @Test("what no statement can say is a misuse that tells what to do")
    func mistakes() throws {
        func message<T>(_ request: QueryInterfaceRequest<T>) -> String {
            do {
                let facts = SchemaFacts(tables: Library.tables)
                return try SQLGenerator.generate(.select(request.relation, singleResult: false), facts: facts).text
            } catch let error as DatabaseError {
                #expect(error.resultCode == .SQLITE_MISUSE)
                return error.message ?? ""
            } catch {
                return "\(error)"
            }
        }
        #expect(message(Letter.joining(required: Letter.person)).contains("2 foreign keys to table person"))
        #expect(
            message(Country.joining(required: Country.belongsTo(Book.self)))
                .contains("no foreign key leads from table country to table book"))
        #expect(
            message(Letter.joining(required: Letter.sender.forKey("x")).joining(required: Letter.recipient.forKey("x")))
                .contains("have the key x"))
        #expect(
            message(Book.joining(optional: Book.author.joining(required: Author.country))).contains(
                "behind one that is"))
        #expect(message(Author.joining(required: Author.books.distinct())).contains("including(all:)"))
        #expect(
            message(Copy.joining(required: Copy.belongsTo(Library.Shelf.self, using: ForeignKey(["shelfRoom"]))))
                .contains("has 1 columns, and refers to 2"))
        let (one, two) = (TableAlias<Book>(name: "a"), TableAlias<Book>(name: "b"))
        #expect(message(Book.aliased(one).aliased(two)).contains("several aliases with a name"))
    }
}
