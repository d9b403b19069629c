import CipherStore
import Foundation

// Observations in the forms that programs use, in code that both language modes take.

extension Notification.Name {
    static let cookbookDidChange = Notification.Name("cookbookDidChange")
}

/// The value of a view: it follows the database by a task, or has its first value at once.
@MainActor
final class RecipeListModel {
    private(set) var titles: [String] = []
    private(set) var failure: (any Error)?
    /// Called after each value.
    var onChange: () -> Void = {}
    private var task: Task<Void, Never>?
    private var cancellable: AnyDatabaseCancellable?

    private let observation = ValueObservation.tracking { db in
        try Recipe.order(\.title).fetchAll(db)
    }

    /// Follows by a sequence, as long as the model lives.
    func appear(in reader: any DatabaseReader) {
        let recipes = observation.values(in: reader, bufferingPolicy: .bufferingNewest(1))
        task = Task { [weak self] in
            do {
                for try await recipes in recipes { self?.show(recipes) }
            } catch {
                self?.failure = error
            }
        }
    }

    /// Shows the first value before it returns.
    func appearNow(in reader: any DatabaseReader) {
        cancellable = observation.start(in: reader, scheduling: .immediate) { [weak self] error in
            self?.failure = error
        } onChange: { [weak self] recipes in
            self?.show(recipes)
        }
    }

    func disappear() {
        task?.cancel()
        cancellable?.cancel()
    }

    private func show(_ recipes: [Recipe]) {
        titles = recipes.map(\.title)
        onChange()
    }
}

/// Counts what its owner is notified of.
final class CommitCounter: TransactionObserver {
    private(set) var (rows, commits) = (0, 0)

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
        switch eventKind {
        case .insert(let tableName), .delete(let tableName): return tableName == "recipe"
        case .update(let tableName, let columnNames): return tableName == "recipe" && columnNames.contains("title")
        }
    }

    func databaseDidChange(with event: DatabaseEvent) { rows += 1 }
    func databaseDidCommit(_ db: Database) { commits += 1 }
    func databaseDidRollback(_ db: Database) {}
}

/// Posts a notification for each commit that changes what some requests read.
func postNotifications(of writer: any DatabaseWriter) -> [AnyDatabaseCancellable] {
    let changes = DatabaseRegionObservation(tracking: Recipe.all(), Ingredient.all())
    let all = DatabaseRegionObservation(tracking: .fullDatabase)
    return [
        changes.start(in: writer) { error in
            preconditionFailure("\(error)")
        } onChange: { _ in
            NotificationCenter.default.post(name: .cookbookDidChange, object: nil)
        },
        all.start(in: writer, onError: { _ in }, onChange: { _ in }),
    ]
}

/// Observers, regions, and values that come at once; on the main thread.
func observeCookbook(in folder: URL) throws {
    let folder = folder.appendingPathComponent("observed")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let pool = try openCookbook(in: folder)
    try writeCookbook(pool)
    let center = NotificationCenter.default
    let token = center.addObserver(forName: .cookbookDidChange, object: nil, queue: nil) { _ in countPost() }
    let cancellables = postNotifications(of: pool)
    let counter = CommitCounter()
    pool.add(transactionObserver: counter)
    try pool.write { db in
        try db.execute(sql: "UPDATE recipe SET minutes = minutes + 1")
        db.afterNextTransaction { _ in countPost() }
    }
    let posts = takePosts()
    check(posts == 2 && counter.rows == 0 && counter.commits == 1, "a commit is reported once to each")
    try pool.write { try $0.execute(sql: "UPDATE ingredient SET grams = grams + 1") }
    check(takePosts() == 1, "a table without rowid is observed")
    center.removeObserver(token)
    cancellables.forEach { $0.cancel() }
    try MainActor.assumeIsolated {
        let model = RecipeListModel()
        model.appearNow(in: pool)
        let titles = try pool.read { try Recipe.order(\.title).fetchAll($0).map(\.title) }
        check(model.titles == titles && !titles.isEmpty && model.failure == nil, "the first value is there at once")
        model.disappear()
        let count = ValueObservation.tracking { try Recipe.fetchCount($0) }
        let shared = count.shared(in: pool, scheduling: .immediate)
        let clients = [shared.start(onError: { _ in }, onChange: { _ in countPost() })]
        let late = shared.start(onError: { _ in }, onChange: { _ in countPost() })
        check(takePosts() == 2, "both clients have a value at once")
        clients.forEach { $0.cancel() }
        late.cancel()
    }
    try pool.close()
}

/// A view model that follows by a sequence, and what has changed between two values.
@MainActor
func observeInTasks(_ pool: DatabasePool) async throws {
    let model = RecipeListModel()
    let (changes, continuation) = AsyncStream.makeStream(of: Int.self)
    model.onChange = { continuation.yield(model.titles.count) }
    model.appear(in: pool)
    var counts = changes.makeAsyncIterator()
    let count = await counts.next() ?? 0
    let deleted = try await pool.write { db in try Recipe.limit(1).deleteAndFetchIds(db) }
    while let next = await counts.next(), next != count - 1 {}
    check(model.titles.count == count - 1 && model.failure == nil, "the model follows")
    model.disappear()
    var (held, isFirst) = ([Recipe](), true)
    for try await changes in ValueObservation.trackingChanges(of: Recipe.order(\.title)).values(in: pool) {
        held = changes.elements
        if !isFirst { break }
        isFirst = false
        check(changes.added.count == count - 1, "at first all are added")
        _ = try await pool.write { db in try Recipe.deleteAll(db) }
    }
    check(held.isEmpty && deleted.count == 1, "then all are removed")
}

private let postCounter = PostCounter()

// Safe because: its count is used with the lock. Notifications come on the thread that posts them.
private final class PostCounter: @unchecked Sendable {
    let lock = NSLock()
    var count = 0
}

private func countPost() { postCounter.lock.withLock { postCounter.count += 1 } }

private func takePosts() -> Int {
    postCounter.lock.withLock {
        defer { postCounter.count = 0 }
        return postCounter.count
    }
}
