import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// A replica of a store while the store is held (``WALHold``): it polls the WAL, and stores what is committed.
///
/// | killed | what is left | the next session |
/// |---|---|---|
/// | while a base is made | packs that no base names | makes the base again; the next prune removes the packs |
/// | while a segment is stored | the segment, or none | continues after the last segment that is stored |
/// | after a reset of the WAL was allowed | everything before the reset is stored | proves that by the frames that the former run has left, or makes a base |
///
/// One thread uses it.
final class ReplicationSession {
    let hold: WALHold
    let sidecar: UnauthenticatedSidecar
    private let repository: BackupRepository
    private let isCancelled: @Sendable () -> Bool
    /// Called often while a base is made.
    private let onTick: () -> Void
    private let placeLock: any PlaceLock
    private var view: WALView
    private var clock: ReplicaClock
    private var last: ReplicaHead?
    /// Commits that are not stored yet.
    private var groups: [ReplicaObject.Group] = []
    private var firstPending: ContinuousClock.Instant?
    /// The frames that were found.
    private var seenFrames: UInt32 = 0
    private var lastPoll: UInt64 = 0
    private var state: WALView.State?
    /// Whether the next run of the WAL is known to follow on what is stored.
    private var awaitsRun = false
    /// Until when a writer may reset the WAL.
    private var window: ContinuousClock.Instant?
    private var nextWindow = ContinuousClock.now
    private var nextSidecar = ContinuousClock.now
    /// An object whose storing has failed: it may have been stored nevertheless, so it is tried again as it is.
    private var unconfirmed: (object: ReplicaObject, end: FramePosition)?
    /// When the index could be read last.
    private var settled = ContinuousClock.now
    private var basedAt = ContinuousClock.now
    private var bytesSinceBase = 0
    private var hasStored = false

    private var paths: StorePaths { hold.paths }
    private var settings: CipherSettings { sidecar.claimed.settings }
    private var strideBytes: Int { WALFrameHeader.headerBytes + settings.pageBytes }

    /// Holds the store.
    ///
    /// - Throws: As ``WALHold/init(_:isCancelled:)``; `StoreError` `storeInUse` where another process replicates the store to
    ///   this place, `saltMissing` for a store without a sidecar, `rotationPending`.
    init(
        _ path: String, _ repository: BackupRepository, onTick: @escaping () -> Void = {},
        isCancelled: @escaping @Sendable () -> Bool
    ) throws {
        let hold = try WALHold(StorePaths(path), isCancelled: isCancelled)
        let sidecar = try Self.sidecar(of: hold.paths)
        guard let lock = try repository.place.lockReplica(of: sidecar.claimed.storeID.bytes) else {
            hold.release()
            throw StoreError(
                .storeInUse, what: "\"\(path)\" is replicated to \"\(repository.place.description)\" already.",
                why: "Another process holds the lock of this replica: one that replicates, or one of a user who may "
                    + "write the repository.",
                remedy: "If no replicator runs, find out who has the file `lock` of the repository open.")
        }
        (self.hold, self.sidecar, self.repository, self.isCancelled) = (hold, sidecar, repository, isCancelled)
        self.onTick = onTick
        placeLock = lock
        view = WALView(hold.paths, pageBytes: sidecar.claimed.settings.pageBytes)
        clock = ReplicaClock()
    }

    deinit { close() }

    /// Releases the store.
    func close() {
        placeLock.release()
        hold.release()
    }

    /// The last object that is stored.
    var head: ReplicaHead? { last }

    /// The present sidecar of a store that is neither being created nor switched to a new key.
    static func sidecar(of paths: StorePaths) throws -> UnauthenticatedSidecar {
        let copies = SidecarFiles(databasePath: paths.database).read()
        let found = SidecarCopy.allCases.compactMap { copies[$0].parsed }
        guard let newest = found.max(by: { $0.claimed.generation < $1.claimed.generation }) else {
            throw StoreError(
                .saltMissing, what: "\"\(paths.database)\" has no sidecar.",
                why: "A replica holds the sidecar too; without it a passphrase opens nothing.",
                remedy: "Open the store for writing: that repairs the sidecar, or reports what is wrong with it.")
        }
        switch newest.claimed.state {
        case .ready, .rotating: return newest
        case .creating, .switching:
            throw StoreError(
                .rotationPending, what: "\"\(paths.database)\" cannot be replicated now.",
                why: "It is being created, or switched to a new key.",
                remedy: "Open the store for writing: that completes it.")
        }
    }

    // MARK: Beginning

    /// Continues the replica where it ended, or makes a base.
    ///
    /// - Parameter former: The head of a session that has stored everything before the store was switched to a new key.
    /// - Returns: The base that was made; nil where the replica continues.
    func begin(after former: ReplicaHead?) throws -> ReplicationBase? {
        _ = try settledState()
        try hold.keepRun()
        let state = try settledState()
        let head = try repository.replicaHead(of: sidecar.claimed.storeID)
        clock.advance(to: head?.until ?? 0)
        lastPoll = head?.until ?? clock.now
        if let head, let position = try continuation(of: head, state) {
            last = head
            last?.position = position
            seenFrames = position.frame
            awaitsRun = state.frames == 0
            return nil
        }
        last = head
        let isComplete = head != nil && head == former && sidecar.claimed.epoch == (former?.epoch ?? 0) + 1
        return try makeBase(gapSince: isComplete ? 0 : head?.until ?? 0)
    }

    /// The position from which segments can follow those that are stored; nil where commits between them may be missing.
    private func continuation(of head: ReplicaHead, _ state: WALView.State) throws -> FramePosition? {
        guard head.epoch == sidecar.claimed.epoch, head.base.pageBytes == settings.pageBytes else { return nil }
        guard state.frames > 0, let salts = state.salts else {
            // Everything is in the database file. Nothing was copied into it since.
            return try hold.databaseModified + ReplicaClock.granularity < head.until ? .empty : nil
        }
        if salts == head.position.salts {
            return try state.frames >= head.position.frame && view.has(head.position) ? head.position : nil
        }
        return try view.wasReset(after: head.position, to: salts) ? view.beginning(of: salts) : nil
    }

    private func settledState() throws -> WALView.State {
        var polling = Polling.untilSettled()
        repeat {
            if let state = try view.state(hold) { return state }
        } while polling.sleep()
        throw Self.unsettled(paths)
    }

    private static func unsettled(_ paths: StorePaths) -> StoreError {
        StoreError(
            .walMissing, what: "The WAL index of \"\(paths.database)\" cannot be read.",
            why: "Another process is recovering it, or it does not match the WAL.",
            remedy: "Try again. If it persists, close the store in every process and open it again.")
    }

    // MARK: Polling

    /// Looks what is committed.
    ///
    /// - Throws: `ReplicationGap` where commits are lost that are not stored; `StoreError`; `SystemError`.
    func poll() throws {
        let before = clock.now
        guard let found = try view.state(hold) else {
            guard settled + ReplicationLimits.lockWait < .now else { return }
            throw Self.unsettled(paths)
        }
        settled = .now
        let now = clock.now
        try requireRun(found)
        if found.frames > seenFrames {
            groups.append(.init(frame: found.frames, after: lastPoll, seen: now))
            seenFrames = found.frames
            firstPending = firstPending ?? .now
        }
        lastPoll = before
        state = found
        if window == nil { try hold.keepRun() }
    }

    /// Accepts a new run of the WAL where it follows on what is stored.
    private func requireRun(_ found: WALView.State) throws {
        guard let head = last else { return }
        guard found.frames > 0, let salts = found.salts else {
            // A writer has reset the WAL, and not committed yet.
            if window != nil, found.isLive { awaitsRun = true }
            return
        }
        if salts == head.position.salts, !awaitsRun || head.position.frame > 0 {
            guard found.frames >= seenFrames else { throw ReplicationGap(since: head.until) }
            awaitsRun = false
            return
        }
        guard awaitsRun || window != nil, groups.isEmpty else { throw ReplicationGap(since: head.until) }
        last?.position = try view.beginning(of: salts)
        (seenFrames, awaitsRun) = (0, false)
    }

    /// Whether commits wait long enough to be stored.
    var isDue: Bool {
        if unconfirmed != nil { return true }
        if groups.isEmpty { return hasNewSidecar() }
        if let state, state.isCopied, state.frames >= ReplicationLimits.resetFrames { return true }
        // So that little is left to be stored when all of a long WAL is copied, and it may be reset.
        let isLong = state?.frames ?? 0 >= ReplicationLimits.urgentFrames
        let pause = isLong ? ReplicationLimits.urgentShippingPause : ReplicationLimits.shippingPause
        return firstPending.map { $0 + pause <= .now } ?? false
    }

    private func hasNewSidecar() -> Bool {
        guard nextSidecar <= .now, let last else { return false }
        nextSidecar = .now + ReplicationLimits.sidecarPause
        return (try? ObjectHash(of: Self.sidecar(of: paths).bytes)).map { $0 != last.sidecar } ?? false
    }

    /// The pause before the next poll.
    var pause: Duration {
        guard let state, state.isLive else { return ReplicationLimits.pollPause }
        return window != nil || state.frames >= ReplicationLimits.urgentFrames
            ? ReplicationLimits.urgentPause : ReplicationLimits.pollPause
    }

    /// The bytes of the WAL that are not stored.
    var pendingBytes: Int { Int(seenFrames - min(seenFrames, last?.position.frame ?? 0)) * strideBytes }
    /// The length of the WAL in bytes, as far as it is committed.
    var walBytes: Int { Int(seenFrames) * strideBytes }

    // MARK: Resets of the WAL

    /// Allows a writer for a moment to reset a WAL that is stored and copied as a whole.
    func maintain() throws {
        if let window {
            if awaitsRun || state?.frames != last?.position.frame || window <= .now { try closeWindow() }
            return
        }
        guard let state, let head = last, state.isLive, state.isCopied, groups.isEmpty, unconfirmed == nil,
            state.frames >= ReplicationLimits.resetFrames, state.frames == head.position.frame, nextWindow <= .now,
            try hold.allowReset(if: {
                guard let now = try view.state(hold) else { return false }
                return now.isCopied && now.salts == head.position.salts && now.frames == head.position.frame
            })
        else { return }
        window = .now + ReplicationLimits.resetWindow
    }

    private func closeWindow() throws {
        var polling = Polling(first: .milliseconds(1), until: .now + ReplicationLimits.lockWait)
        while !hold.keepsRun {
            try hold.keepRun()
            if !hold.keepsRun, !polling.sleep() { break }
        }
        // The reset may have come after the last poll.
        try requireRun(settledState())
        let wasReset = awaitsRun || seenFrames == 0
        window = nil
        if !wasReset { nextWindow = .now + ReplicationLimits.resetPause }
        try hold.allowCheckpoints()
    }

    // MARK: Storing

    /// Stores what polls have found.
    ///
    /// - Returns: The frames that were stored.
    /// - Throws: `StoreError` `walDamaged`; `alreadyExists` where another process replicates the same store; the errors of the
    ///   place.
    @discardableResult
    func ship() throws -> Int {
        guard last != nil else { return 0 }
        let lock = try repository.place.lockForUse(isWriting: true, isCancelled)
        defer { lock.release() }
        return try shipLocked()
    }

    private func shipLocked() throws -> Int {
        var count = 0
        // After the commits were found, so that it is never older than the database.
        let present = try Self.sidecar(of: paths)
        while let next = try unconfirmed ?? nextSegment(present) {
            try store(next.object, next.end)
            count += Int(next.object.frameCount)
        }
        firstPending = nil
        return count
    }

    /// The next segment; nil where everything is stored.
    private func nextSegment(
        _ present: UnauthenticatedSidecar
    ) throws -> (object: ReplicaObject, end: FramePosition)? {
        guard let head = last else { return nil }
        guard present.claimed.epoch == head.epoch else { throw ReplicationGap(since: head.until) }
        let hash = try ObjectHash(of: present.bytes)
        guard let last = groups.last?.frame ?? (hash == head.sidecar ? nil : head.position.frame) else { return nil }
        let capacity = UInt32(max(1, ReplicationLimits.segmentBytes / strideBytes))
        let through = min(last, head.position.frame + capacity)
        let whole = groups.prefix { $0.frame <= through }
        let isAll = whole.count == groups.count
        var object = ReplicaObject(
            name: head.name.next, pageBytes: settings.pageBytes, previous: head.hash, after: head.until,
            until: max(head.until, whole.last?.seen ?? 0, isAll ? lastPoll : 0), position: head.position)
        object.groups = Array(whole)
        object.map = hash
        object.sidecar = hash == head.sidecar ? [] : present.bytes
        object.frames.reserveCapacity(Int(through - head.position.frame) * strideBytes)
        let end = try view.walk(from: head.position, through: through) { object.frames.append(contentsOf: $2) }
        return (object, end)
    }

    /// Stores one object, and makes it the head.
    ///
    /// - Throws: `ReplicationGap` where another user has taken the name; as ``ship()``.
    private func store(_ object: ReplicaObject, _ end: FramePosition) throws {
        let (bytes, hash) = try object.encoded()
        unconfirmed = object.name.isBase ? nil : (object, end)
        if try repository.place.put(object.name.object, bytes) == .alreadyPresent {
            guard try repository.place.get(object.name.object, limitBytes: bytes.count) == bytes else {
                unconfirmed = nil
                throw try repository.place.isUnproven(object.name.object)
                    ? ReplicationGap(since: last?.until ?? 0) : conflict(object.name)
            }
        }
        unconfirmed = nil
        hasStored = true
        bytesSinceBase += bytes.count
        last = try ReplicaHead(object, hash, end, after: last, epoch: sidecar.claimed.epoch)
        groups.removeAll { $0.frame <= end.frame && object.frameCount > 0 }
    }

    private func conflict(_ name: ReplicaName) -> StoreError {
        StoreError(
            hasStored ? .alreadyExists : .storeInUse,
            what: "Another process replicates a store of the same identifier to \"\(repository.place.description)\".",
            why: "The object \(name.object) is there with other bytes.",
            remedy: "End it, or give each copy of the store a repository of its own.")
    }

    /// Notes in the replica that it is complete until now, if that differs by a time in milliseconds from what it says.
    func markEnd(after time: UInt64) throws {
        guard let head = last, groups.isEmpty, unconfirmed == nil, lastPoll >= head.until + time else { return }
        let object = ReplicaObject(
            name: head.name.next, pageBytes: settings.pageBytes, previous: head.hash, after: head.until,
            until: lastPoll,
            position: head.position)
        let lock = try repository.place.lockForUse(isWriting: true, isCancelled)
        defer { lock.release() }
        try store(object, head.position)
    }

    // MARK: Bases

    /// Whether a new base shortens restorations: after a time, and when the segments are longer than the database.
    ///
    /// - Parameter age: The time.
    func needsBase(after age: Duration) -> Bool {
        guard let last else { return false }
        let database = Int(last.base.pages) * settings.pageBytes
        return basedAt + age <= .now || bytesSinceBase > max(ReplicationLimits.bytesBeforeBase, 2 * database)
    }

    /// Stores the whole database as it is now. Writers continue, and the checkpoints of open connections wait.
    ///
    /// - Parameter gapSince: Until when the replica is complete, if commits after that are missing; 0 if none is.
    func makeBase(gapSince: UInt64) throws -> ReplicationBase {
        let lock = try repository.place.lockForUse(isWriting: true, isCancelled)
        defer { lock.release() }
        try hold.excludeCheckpoints(isCancelled: isCancelled)
        defer { try? hold.allowCheckpoints() }
        let former = last
        // Commits after the last segment are in the base alone: it says since when.
        let after = gapSince == 0 ? former?.until ?? clock.now : clock.now
        let found = try settledState()
        let until = clock.now
        let modified = try hold.databaseModified
        try hold.requireEncrypted(settings)
        let moment = try moment(found)
        (groups, seenFrames, lastPoll, state, awaitsRun) = ([], found.frames, until, found, found.frames == 0)
        last = nil
        let layout = try PageLayout(settings)
        let collection = BaseCollection(
            repository: repository, layout: layout, pages: moment.pages, read: moment.read
        ) { [self] in
            if isCancelled() { throw CancellationError() }
            onTick()
            try hold.admitOpeners()
            try poll()
        }
        let result = try collection.run(after: former?.base)
        // A connection that was opened meanwhile may have copied frames.
        guard try hold.databaseModified == modified else { throw changedMeanwhile() }
        let storeID = sidecar.claimed.storeID
        var object = ReplicaObject(
            name: ReplicaName(storeID, base: try repository.nextBase(of: storeID), segment: 0),
            pageBytes: settings.pageBytes, previous: gapSince == 0 ? former?.hash ?? .none : .none, after: after,
            until: until, position: moment.position)
        (object.pages, object.gapSince, object.packs) = (moment.pages, gapSince, result.packs)
        object.map = try repository.store(.blob, result.map.encoded)
        object.sidecar = try Self.sidecar(of: paths).bytes
        try store(object, moment.position)
        (basedAt, bytesSinceBase) = (.now, 0)
        if moment.position.frame == 0, let salts = state?.salts, state?.frames ?? 0 > 0 {
            // Its first run has begun meanwhile, and was not reset: no frame of it was copied.
            last?.position = try view.beginning(of: salts)
            awaitsRun = false
        }
        return ReplicationBase(
            storeID: sidecar.claimed.storeID, number: object.name.base, pages: moment.pages,
            pageBytes: settings.pageBytes,
            newPages: result.newPages, gapSince: gapSince == 0 ? nil : gapSince, until: until)
    }

    /// The pages of a moment, while nobody copies frames into the database.
    private struct Moment {
        let position: FramePosition
        let pages: UInt32
        let read: (UInt32, Int, UnsafeMutableRawBufferPointer) throws -> Void
    }

    private func moment(_ found: WALView.State) throws -> Moment {
        var lastFrames: [UInt32: UInt32] = [:]
        var position = FramePosition.empty
        var readFrame: ((UInt32, UnsafeMutableRawBufferPointer) throws -> Void)?
        if found.frames > 0, let salts = found.salts {
            position = try view.walk(from: view.beginning(of: salts), through: found.frames) { frame, header, _ in
                lastFrames[header.pageNumber] = frame
            }
            readFrame = try view.pageReader()
        }
        let pageBytes = settings.pageBytes
        let pages = found.pages > 0 ? found.pages : UInt32(clamping: try hold.databaseBytes / pageBytes)
        guard pages > 0 else { throw truncated(1) }
        let lockBytePage = try PageLayout(settings).lockBytePage
        return Moment(position: position, pages: pages) { [self, lastFrames] first, count, buffer in
            let wanted = UnsafeMutableRawBufferPointer(rebasing: buffer[..<(count * pageBytes)])
            let got = try hold.readDatabase(at: PageLayout.offset(ofPage: first, pageBytes: pageBytes), into: wanted)
            for place in 0..<count {
                let number = first + UInt32(place)
                let page = UnsafeMutableRawBufferPointer(
                    rebasing: wanted[place * pageBytes..<(place + 1) * pageBytes])
                if let frame = lastFrames[number], let readFrame {
                    try readFrame(frame, page)
                } else if (place + 1) * pageBytes > got, number != lockBytePage {
                    throw truncated(number)
                }
            }
        }
    }

    private func truncated(_ page: UInt32) -> StoreError {
        StoreError(
            .truncated, what: "Page \(page) of \"\(paths.database)\" is missing.",
            why: "Neither the database file nor the WAL contains it.",
            remedy: "Run cipherctl verify on the store. Restore it from a backup if the file was truncated.")
    }

    private func changedMeanwhile() -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(paths.database)\" was opened while a base of it was made.",
            why: "A checkpoint has changed the database file.", remedy: "Try again.")
    }
}

/// Commits that are not stored were overwritten: only a new base can follow.
struct ReplicationGap: Error {
    /// Until when the replica is complete, in milliseconds since 1970.
    let since: UInt64
}

/// The last object of a replica.
struct ReplicaHead: Hashable, Sendable {
    var name: ReplicaName
    var hash: ObjectHash
    /// The position up to which everything is stored.
    var position: FramePosition
    /// The time up to which everything is stored, in milliseconds since 1970.
    var until: UInt64
    /// The base, without frames.
    let base: ReplicaObject
    /// The hash of the sidecar that is stored.
    var sidecar: ObjectHash
    let epoch: UInt64

    init(
        _ object: ReplicaObject, _ hash: ObjectHash, _ position: FramePosition, after former: ReplicaHead?,
        epoch: UInt64
    ) throws {
        (name, self.hash, self.position, until) = (object.name, hash, position, object.until)
        base = object.name.isBase ? object : former?.base ?? object
        sidecar = try object.name.isBase ? ObjectHash(of: object.sidecar) : object.map
        self.epoch = epoch
    }
}

/// The time of day, which never goes back.
struct ReplicaClock {
    /// The time by which stamps of files may be early, in milliseconds.
    static let granularity: UInt64 = 20

    private var latest: UInt64 = 0

    /// Milliseconds since 1970.
    var now: UInt64 {
        mutating get {
            latest = max(latest, UInt64(WallClock.millisecondsSince1970))
            return latest
        }
    }

    mutating func advance(to time: UInt64) { latest = max(latest, time) }
}

extension BackupRepository {
    /// The last object of the replica of a store; nil where there is none that can be continued.
    func replicaHead(of storeID: StoreID) throws -> ReplicaHead? {
        guard let replica = try replicas(of: storeID).first, let base = replica.bases.last, base == replica.highest,
            replica.unconnected.allSatisfy({ $0.base != base }),
            // Another user has taken the name of the next segment.
            try !place.isUnproven(replica.lastName(ofBase: base).next.object)
        else { return nil }
        do {
            let first = try replicaObject(replica.baseName(base))
            let epoch = try UnauthenticatedSidecar.parse(first.object.sidecar).claimed.epoch
            let head = try ReplicaHead(first.object, first.hash, first.end, after: nil, epoch: epoch)
            guard replica.lastSegments[base] ?? 0 > 0 else { return head }
            let last = try replicaObject(replica.lastName(ofBase: base))
            return try ReplicaHead(last.object, last.hash, last.end, after: head, epoch: epoch)
        } catch let error as StoreError where error.code == .backupDamaged {
            return nil
        } catch is SidecarSyntaxError {
            return nil
        }
    }

    /// The number of the next base of a store.
    ///
    /// - Throws: `StoreError` `backupDamaged` where none is left.
    func nextBase(of storeID: StoreID) throws -> UInt32 {
        guard let replica = try replicas(of: storeID).first else { return 1 }
        guard let next = replica.nextBase else { throw damaged("its bases have used up their numbers") }
        return next
    }
}
