/// The result of one exchange with a remote, and its failures.
package struct ExchangeReport: Sendable {
    /// An object and why it was not used.
    struct Problem: Hashable, Sendable {
        let name: String
        let error: ObjectError
    }

    /// Two commits of one author and number.
    struct TwoContents: Hashable, Sendable {
        let author: ReplicaID
        let number: UInt64
    }

    package internal(set) var receivedCommits = 0
    package internal(set) var receivedSnapshots = 0
    var receivedRecords = 0
    package internal(set) var sentCommits = 0
    package internal(set) var sentSnapshots = 0
    var sentObjects = 0
    package internal(set) var sentBytes = 0
    package internal(set) var deletedObjects = 0
    /// Commits that the remote had and lacks, or has in a damaged object alone. They were sent again, unless ``unsent`` has them.
    package internal(set) var lostCommits: UInt64 = 0
    /// Objects that wait for an entry of the list of members, a secret, or a later version of this library.
    var waiting: [Problem] = []
    /// Objects that members have sealed and that are no valid ones. They stay as evidence.
    var refused: [Problem] = []
    package internal(set) var damaged: [String] = []
    var twoContents: Set<TwoContents> = []
    /// Commits that the remote lacks and that cannot be sent: the store has neither their bodies nor a signature for them.
    package internal(set) var unsent: UInt64 = 0
    /// Calls of the remote that failed. The next exchange repeats them.
    package internal(set) var failures: [RemoteFailure] = []

    /// Adds the report of the exchange that followed. The open work is that of the later report.
    mutating func add(_ next: ExchangeReport) {
        receivedCommits += next.receivedCommits
        receivedSnapshots += next.receivedSnapshots
        receivedRecords += next.receivedRecords
        sentCommits += next.sentCommits
        sentSnapshots += next.sentSnapshots
        sentObjects += next.sentObjects
        sentBytes += next.sentBytes
        deletedObjects += next.deletedObjects
        lostCommits += next.lostCommits
        (waiting, unsent) = (next.waiting, next.unsent)
        refused += next.refused
        damaged += next.damaged
        twoContents.formUnion(next.twoContents)
        failures += next.failures
    }

    /// Whether everything is here and there.
    package var isComplete: Bool {
        waiting.isEmpty && refused.isEmpty && damaged.isEmpty && unsent == 0 && failures.isEmpty
    }
}

/// A call of a remote that failed.
package struct RemoteFailure: Error, CustomStringConvertible, Sendable {
    package let call: String
    package let name: String
    package let remote: String
    package let cause: any Error

    /// Whether this user may not make the call, and another one may.
    var isRefusal: Bool { (cause as? any ObjectStoreError)?.isRefusal ?? false }

    package var description: String { "The remote \(remote) failed in \(call) of \"\(name)\": \(cause). Sync again." }
}

/// A remote whose errors are separate from those of the store.
struct CalledRemote {
    let remote: any ObjectStore

    func list() throws(RemoteFailure) -> [ListedObject] {
        try call("list", "") { try remote.list("") }
    }

    func get(_ name: ObjectName) throws(RemoteFailure) -> [UInt8]? {
        try call("get", name.text) { try remote.get(name.text, limitBytes: ExchangeLimits.objectBytes) }
    }

    func put(_ name: ObjectName, _ bytes: [UInt8]) throws(RemoteFailure) -> PutOutcome {
        try call("put", name.text) { try remote.put(name.text, bytes) }
    }

    func delete(_ name: ObjectName) throws(RemoteFailure) {
        try call("delete", name.text) { try remote.delete(name.text) }
    }

    private func call<Result>(_ call: String, _ name: String, _ body: () throws -> Result) throws(RemoteFailure)
        -> Result
    {
        do {
            return try body()
        } catch {
            throw RemoteFailure(call: call, name: name, remote: remote.description, cause: error)
        }
    }
}
