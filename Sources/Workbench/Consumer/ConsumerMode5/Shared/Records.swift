import CipherStore
import Foundation

// Records, requests, associations, Codable and full text, in code that both language modes take.

struct Cook: Codable, Identifiable, Hashable, Sendable {
    var id: Int64?
    var name: String
    var born: Date?
}

extension Cook: FetchableRecord, MutablePersistableRecord {
    enum Columns {
        static let name = Column(CodingKeys.name)
        static let born = Column(CodingKeys.born)
    }
    static let recipes = hasMany(Recipe.self)
    static let ingredients = hasMany(Ingredient.self, through: recipes, using: Recipe.ingredients)
    var recipes: QueryInterfaceRequest<Recipe> { request(for: Cook.recipes) }

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

struct Recipe: Codable, Identifiable, Hashable, Sendable {
    enum Course: String, Codable { case starter, main, dessert }
    struct Nutrition: Codable, Hashable, Sendable {
        var calories: Int
        var vitamins: [String]
    }
    var id: UUID
    var cookId: Int64?
    var title: String
    var minutes: Int
    var course: Course
    var nutrition: Nutrition?
}

extension Recipe: FetchableRecord, PersistableRecord {
    enum Columns {
        static let id = Column(CodingKeys.id)
        static let title = Column(CodingKeys.title)
        static let minutes = Column(CodingKeys.minutes)
        static let course = Column(CodingKeys.course)
        static let nutrition = JSONColumn(CodingKeys.nutrition)
    }
    static let cook = belongsTo(Cook.self)
    static let ingredients = hasMany(Ingredient.self)
    static let index = hasOne(Table("recipe_ft"), key: "index", using: ForeignKey(["rowid"], to: ["rowid"]))
    static let persistenceConflictPolicy = PersistenceConflictPolicy(insert: .abort, update: .abort)
    static func databaseUUIDEncodingStrategy(for column: String) -> DatabaseUUIDEncodingStrategy { .uppercaseString }
}

struct Ingredient: Codable, Hashable, Sendable, FetchableRecord, PersistableRecord {
    enum Columns: String, ColumnExpression { case recipeId, name, grams }
    static let recipe = belongsTo(Recipe.self)
    static func databaseUUIDEncodingStrategy(for column: String) -> DatabaseUUIDEncodingStrategy { .uppercaseString }
    var recipeId: UUID
    var name: String
    var grams: Double
}

/// A cook with everything that the cook made.
struct Cookbook: Decodable, FetchableRecord {
    struct Entry: Decodable {
        var recipe: Recipe
        var ingredients: Set<Ingredient>
    }
    var cook: Cook
    var recipes: [Entry]
    var recipeCount: Int
    var averageRecipeMinutes: Double?
}

/// A recipe with its cook, if that is known.
struct Signed: Decodable, FetchableRecord {
    var recipe: Recipe
    var cook: Cook?
}

/// The common part of requests of recipes and associations to recipes.
extension DerivableRequest<Recipe> {
    func quick() -> Self { filter { $0.minutes <= 30 } }
    func by(_ name: String) -> Self { joining(required: Recipe.cook.filter { $0.name == name }) }
}

/// Recipes and cooks in an encrypted database.
func useRecords(in folder: URL) throws {
    let pool = try openCookbook(in: folder)
    try writeCookbook(pool)
    try pool.read { db in
        try readRequests(db)
        try readExpressions(db)
        try readAssociations(db)
        try searchRecipes(db)
    }
    try changeCookbook(pool)
    try pool.close()
}

func openCookbook(in folder: URL) throws -> DatabasePool {
    var config = Configuration()
    config.prepareDatabase { db in try db.usePassphrase("correct horse battery staple") }
    let pool = try DatabasePool(path: folder.appendingPathComponent("cookbook.db").path, configuration: config)
    var migrator = DatabaseMigrator()
    migrator.registerMigration("cookbook") { db in
        try db.create(table: "cook") { t in
            t.autoIncrementedPrimaryKey("id")
            t.column("name", .text).notNull().unique()
            t.column("born", .date)
        }
        try db.create(table: "recipe") { t in
            t.primaryKey("id", .text)
            t.belongsTo("cook", onDelete: .cascade)
            t.column("title", .text).notNull()
            t.column("minutes", .integer).notNull().indexed()
            t.column("course", .text).notNull()
            t.column("nutrition", .jsonText)
        }
        try db.create(table: "ingredient", options: .withoutRowID) { t in
            t.primaryKey {
                t.belongsTo("recipe", onDelete: .cascade)
                t.column("name", .text)
            }
            t.column("grams", .double).notNull().defaults(to: 0)
        }
        try db.create(virtualTable: "recipe_ft", using: FTS5()) { t in
            t.synchronize(withTable: "recipe")
            t.column("title")
        }
    }
    try migrator.migrate(pool)
    return pool
}

func writeCookbook(_ pool: DatabasePool) throws {
    try pool.write { db in
        var ida = Cook(name: "Ida", born: Date(timeIntervalSince1970: 0))
        try ida.insert(db)
        check(ida.id == 1, "the cook has the key of the row")
        let jon = try Cook(name: "Jon").inserted(db)
        let soup = Recipe(
            id: UUID(), cookId: ida.id, title: "Onion soup", minutes: 45, course: .starter,
            nutrition: Recipe.Nutrition(calories: 250, vitamins: ["C", "B6"]))
        try soup.insert(db)
        try Recipe(id: UUID(), cookId: ida.id, title: "Omelette with onions", minutes: 15, course: .main).insert(db)
        try Recipe(id: UUID(), cookId: jon.id, title: "Lemon sorbet", minutes: 30, course: .dessert).insert(db)
        try Recipe(id: UUID(), title: "Bread", minutes: 180, course: .starter).save(db)
        for (name, grams) in ["onions": 400.0, "butter": 50] {
            try Ingredient(recipeId: soup.id, name: name, grams: grams).insert(db)
        }
        check(try Recipe.find(db, id: soup.id) == soup, "a record is read as it was written")
        check(try Ingredient.exists(db, key: ["recipeId": soup.id.uuidString, "name": "butter"]), "by two columns")
    }
    do {
        try pool.write { db in _ = try Cook(name: "Ida").inserted(db) }
        check(false, "a name was inserted twice")
    } catch let error as DatabaseError {
        check(error.extendedResultCode == .SQLITE_CONSTRAINT_UNIQUE, "the name is unique")
    }
}

func readRequests(_ db: Database) throws {
    check(try Recipe.fetchCount(db) == 4, "four recipes")
    check(try Recipe.order(\.minutes.desc).fetchOne(db)?.title == "Bread", "a key path")
    check(try Recipe.order { [$0.course, $0.title] }.fetchAll(db).first?.course == .dessert, "a closure")
    check(try Recipe.filter { $0.minutes < 60 && $0.title.like("O%") }.fetchCount(db) == 2, "a condition")
    check(try Recipe.all().quick().by("Ida").fetchAll(db).map(\.minutes) == [15], "requests of our own")
    check(try Cook.fetchOne(db, id: 1)?.name == "Ida" && Cook.fetchOne(db, key: ["name": "Jon"])?.id == 2, "keys")
    check(try Cook.filter(ids: [1, 2, 99]).fetchSet(db).count == 2 && Cook.filter(ids: []).isEmpty(db), "several keys")
    check(try Recipe.select(\.title, as: String.self).fetchSet(db).contains("Bread"), "one column")
    check(try Recipe.select({ max($0.minutes) }, as: Int.self).fetchOne(db) == 180, "an aggregate")
    let rows = try Recipe.select { [$0.course, count($0.id).forKey("number")] }
        .group(\.course).having { count($0.id) > 1 }.asRequest(of: Row.self).fetchAll(db)
    check(rows == [["course": "starter", "number": 2]], "groups")
    let titles = try Recipe.fetchCursor(db).map(\.title)
    check(try titles.contains { $0 == "Bread" }, "a cursor")
    do {
        _ = try Recipe.find(db, id: UUID())
        check(false, "a recipe was found that is not there")
    } catch let RecordError.recordNotFound(databaseTableName: table, key: key) {
        check(table == "recipe" && key.keys.sorted() == ["id"], "what was not found")
    }
}

func readExpressions(_ db: Database) throws {
    let title = "Bread"
    check(try Recipe.filter(literal: "title = \(title)").fetchCount(db) == 1, "an SQL literal")
    let request: SQLRequest<Recipe> = "SELECT \(columnsOf: Recipe.self) FROM \(Recipe.self) WHERE minutes > \(60)"
    check(try request.fetchAll(db).map(\.title) == [title], "a request in SQL")
    check(
        try Recipe.filter { [15, 30].contains($0.minutes) || (100...200).contains($0.minutes) }.fetchCount(db) == 3,
        "sets")
    check(try Recipe.filter { $0.nutrition["$.calories"] == 250 }.fetchCount(db) == 1, "JSON")
    let longest = Recipe.select { max($0.minutes) }
    check(try Recipe.filter { $0.minutes == longest }.fetchOne(db)?.title == title, "a subquery")
    let quick = CommonTableExpression<Recipe>(named: "quick", request: Recipe.all().quick())
    check(try quick.all().with(quick).order(Column("minutes")).fetchAll(db).map(\.minutes) == [15, 30], "a CTE")
    let cooks = Cook.filter { $0.name.collating(.nocase) == "IDA" && $0.born != nil }
    check(try cooks.fetchCount(db) == 1, "a collation")
}

func readAssociations(_ db: Database) throws {
    let books =
        try Cook
        .including(all: Cook.recipes.order { $0.minutes }.including(all: Recipe.ingredients))
        .annotated(with: Cook.recipes.count, Cook.recipes.average(\.minutes))
        .order(\.name)
        .asRequest(of: Cookbook.self)
        .fetchAll(db)
    check(books.map(\.recipeCount) == [2, 1] && books.map(\.averageRecipeMinutes) == [30, 30], "aggregates")
    check(books[0].recipes.map(\.ingredients.count) == [0, 2], "two levels of rows")
    let signed = try Recipe.including(optional: Recipe.cook).order(\.minutes).asRequest(of: Signed.self).fetchAll(db)
    check(signed.map { $0.cook?.name } == ["Ida", "Jon", "Ida", nil], "a joined row, where there is one")
    check(try Cook.having(Cook.recipes.count > 1).fetchAll(db).map(\.name) == ["Ida"], "a filter by an aggregate")
    let alias = TableAlias<Cook>()
    let byName = Recipe.joining(required: Recipe.cook.aliased(alias)).filter(alias[Column("name")] == "Jon")
    check(try byName.fetchAll(db).map(\.title) == ["Lemon sorbet"], "an alias")
    let ida = try Cook.find(db, id: 1)
    check(try ida.recipes.fetchCount(db) == 2, "the rows of one record")
    check(
        try ida.request(for: Cook.ingredients).order { $0.name }.fetchAll(db).map(\.grams) == [50, 400],
        "through others")
    let row = try Row.fetchOne(db, Recipe.including(required: Recipe.cook).order(\.minutes))
    check(row?.scopes["cook"]?["name"] == "Ida", "a scope")
}

func searchRecipes(_ db: Database) throws {
    func titles(_ words: String) throws -> [String] {
        guard let pattern = FTS5Pattern(matchingAllPrefixesIn: words) else { return [] }
        let index = Recipe.index.matching(pattern).order(Column.rank)
        return try Recipe.joining(required: index).fetchAll(db).map(\.title).sorted()
    }
    check(try titles("oni") == ["Omelette with onions", "Onion soup"], "beginnings of words")
    check(try titles("\"soup AND (") == [] && titles("*\"") == [], "any text of a user is a pattern, or none")
}

func changeCookbook(_ pool: DatabasePool) throws {
    try pool.write { db in
        var ida = try Cook.find(db, id: 1)
        let changed = try ida.updateChanges(db) { $0.name = "Ida B." }
        check(try changed && !ida.updateChanges(db) { $0.name = "Ida B." }, "only changes are written")
        check(try Recipe.all().quick().updateAll(db) { $0.minutes += 5 } == 2, "a batch")
        let updated = try Recipe.all().quick().updateAndFetchAll(db) { [$0.minutes.set(to: 10)] }
        check(updated.map(\.minutes) == [10], "a batch, and its rows")
        var jon = Cook(name: "Jon", born: Date(timeIntervalSince1970: 86_400))
        let upserted = try jon.upsertAndFetch(
            db, onConflict: ["name"],
            doUpdate: { excluded in
                [Cook.Columns.born.set(to: excluded[Column("born")])]
            })
        check(upserted.id == 2 && upserted.born != nil, "an upsert")
        check(try Recipe.filter { $0.course == Recipe.Course.dessert.rawValue }.deleteAll(db) == 1, "a deletion")
        check(try ida.delete(db) && Recipe.fetchCount(db) == 1, "the recipes of a cook go as well")
    }
}

/// Requests are values that tasks share.
func useRecordsInTasks(in folder: URL) async throws {
    let pool = try openCookbook(in: folder)
    try writeCookbook(pool)
    let quick = Recipe.all().quick().order(\.minutes)
    async let count = pool.read { db in try quick.fetchCount(db) }
    async let recipes = pool.read { db in try quick.fetchAll(db) }
    let (number, titles) = try await (count, recipes.map(\.title))
    check(number == 2 && titles == ["Omelette with onions", "Lemon sorbet"], "two tasks read by one request")
    let cook = try await pool.write { db in try Cook(name: "Kim").insertAndFetch(db) }
    check(cook.id == 3, "a record comes back from a task")
    try await observeInTasks(pool)
    try pool.close()
}
