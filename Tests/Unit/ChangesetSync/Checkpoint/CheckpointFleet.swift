import CipherDatabase
import FormerSimulation
import Testing

@testable import ChangesetSync

/// Some stores of one repository, and the remote by which they exchange commits.
struct CheckpointFleet {
    let remote: MemoryRemote
    private(set) var replicas: [Replica] = []
    private(set) var managers: [SyncManager] = []
    private let schema: String
    private let tables: [String]

    init(_ count: Int, _ schema: String = Replica.players, tracking tables: [String] = ["player"]) async throws {
        (self.schema, self.tables) = (schema, tables)
        let first = try Replica(schema, tracking: tables)
        remote = MemoryRemote(try first.repository.id, isCompacting: true)
        try await add(first)
        for _ in 1..<max(1, count) { try await join() }
    }

    private mutating func add(_ replica: Replica) async throws {
        let manager = SyncManager(replica.repository, remote: remote)
        try await manager.setup()
        replicas.append(replica)
        managers.append(manager)
    }

    /// One more store, without rows.
    mutating func join() async throws {
        try await add(Replica(schema, tracking: tables, key: replicas[0].key()))
    }

    /// Everybody syncs, as often as it takes that all have all and have said so.
    ///
    /// - Parameter newcomer: The first of the stores that may rejoin.
    func settle(_ places: [Int]? = nil, newcomer: Int = .max) async throws {
        for _ in 0..<3 {
            for place in places ?? Array(managers.indices) {
                do {
                    try await managers[place].sync()
                } catch let error as SyncError where error.code == .baseTooOld && place >= newcomer {
                    try await managers[place].rejoin()
                }
            }
        }
    }

    func insert(_ place: Int, _ ids: ClosedRange<Int>) throws {
        for id in ids { try replicas[place].run("INSERT INTO player VALUES (\(id), 'p\(id)', \(place))") }
    }

    func expectEqual(_ places: [Int]? = nil, _ name: Comment = "") throws {
        let places = places ?? Array(replicas.indices)
        let (head, state) = (try replicas[places[0]].head, try replicas[places[0]].state())
        for place in places {
            #expect(try replicas[place].head == head, name)
            #expect(try replicas[place].state() == state, name)
            #expect(try replicas[place].repository.verify().isEmpty, name)
        }
    }

    func expectInSync(_ name: Comment = "") throws {
        for manager in managers { #expect(try manager.status().isInSync, name) }
    }

    /// The objects at the remote.
    var objects: Set<ObjectID> { remote.edit { Set($0.objects.keys) } }

    func announced(by place: Int) throws -> Acknowledgement.Announcement? {
        try replicas[place].read { db in
            CheckpointStore.best(try CheckpointStore(db: db).replicas().compactMap(\.acknowledgement))
        }
    }
}

/// The kind of the error that a call throws.
func syncCode(_ body: () async throws -> some Any) async -> SyncError.Code? {
    do {
        _ = try await body()
        return nil
    } catch {
        return (error as? SyncError)?.code
    }
}
