import CipherDatabase
import CipherStore
import Dispatch
import KeyCustody
import PageFormat
import RotationCore
import StoreCrypto
import StorePlatform
import StoreSharing
import Synchronization

/// Copies the pages of the store under the new key, verifies the written pages, and records the WAL position up to
/// which the copy equals the store. Used by one thread, which starts worker threads.
final class PageCopier {
    let copy: RotationCopy
    let keys: RotationKeys
    /// The WAL position up to which the copy equals the store.
    private(set) var position: WALPosition
    /// Pages of the copy.
    private(set) var pages: UInt32
    private let paths: StorePaths
    private let reencryption: PageReencryption
    private let isCancelled: @Sendable () -> Bool
    private let reporter: ProgressReporter
    private let throttle: Throttle?
    private let workers: Int
    private var acceptsZeroPages = false
    /// The time to carry over one page, as last measured.
    private(set) var pageCost = RotationLimits.assumedPageCost
    /// The speed of the whole copy.
    private(set) var bytesPerSecond = 0

    /// Creates the copy's file.
    ///
    /// - Parameters:
    ///   - view: The snapshot to copy.
    ///   - clock: The clock of the throttle.
    init(
        _ paths: StorePaths, of view: PageSnapshot, keys: RotationKeys, options: KeyRotation.Options,
        reporter: ProgressReporter, isCancelled: @escaping @Sendable () -> Bool, clock: Throttle.Clock = .monotonic
    ) throws {
        self.paths = paths
        self.keys = keys
        (position, pages) = (view.position, view.databasePages)
        self.isCancelled = isCancelled
        self.reporter = reporter
        reencryption = try Self.reencryption(keys)
        throttle = options.throttleBytesPerSecond.map { Throttle(bytesPerSecond: $0, clock: clock) }
        workers = options.workerCount
        copy = try RotationCopy(for: paths, pageBytes: reencryption.layout.pageBytes)
    }

    private static func reencryption(_ keys: RotationKeys) throws -> PageReencryption {
        try PageReencryption(
            from: keys.currentDataKey.pageKeys(salt: keys.currentSalt, settings: keys.settings),
            to: keys.nextDataKey.pageKeys(salt: keys.nextSalt, settings: keys.settings))
    }

    var pageBytes: Int { reencryption.layout.pageBytes }

    // MARK: All pages

    /// Copies every page of the view.
    func copyAll(of view: PageSnapshot) throws {
        acceptsZeroPages = try isAutoVacuum(view)
        let pages = pages
        reporter.begin(.copying, pages: Int(pages), pageBytes: pageBytes)
        let start = ContinuousClock.now
        let isHalfDone = Atomic<Bool>(false)
        var flow = flow(throttle)
        flow.progress = { [reporter] done in
            reporter.reach(done)
            // For tests: once, in the middle.
            guard done >= Int(pages) / 2, !isHalfDone.exchange(true, ordering: .relaxed) else { return }
            CrashPoint.reach(.rotationCopyHalf)
        }
        try perform {
            try reencryption.copy(
                .all(pages), acceptsZeroPages: acceptsZeroPages, flow: flow,
                read: { places, buffer in
                    try view.read(firstPage: UInt32(places.lowerBound + 1), count: places.count, into: buffer)
                },
                write: { [copy] places, buffer in
                    try copy.write(firstPage: UInt32(places.lowerBound + 1), buffer)
                })
        }
        let seconds = max((ContinuousClock.now - start) / .seconds(1), 1e-6)
        bytesPerSecond = Int(Double(Int(pages) * pageBytes) / seconds)
    }

    /// Reads the whole copy back.
    func verifyAll() throws {
        reporter.begin(.verifying, pages: Int(pages), pageBytes: pageBytes)
        try copy.synchronize(pages: pages)
        var flow = flow(throttle)
        flow.progress = { [reporter] in reporter.reach($0) }
        try perform {
            try reencryption.verify(.all(pages), flow: flow) { [copy] places, buffer in
                try copy.read(firstPage: UInt32(places.lowerBound + 1), into: buffer)
            }
        }
    }

    // MARK: Single pages

    /// Carries over what was committed since ``position``: copies the pages from the frames of the WAL and reads them
    /// back.
    func carry(_ delta: WALDelta, from view: PageSnapshot) throws {
        try copyFrames(delta, view)
        (position, pages) = (delta.position, delta.databasePages)
    }

    /// Writes all of the copy to disk; the first time also its directory entry.
    func synchronize() throws { try copy.synchronize(pages: pages) }

    /// Removes the copy's file, and frees its space.
    func discard() throws {
        // Closed after the removal, so that the space is freed step by step.
        defer { copy.close() }
        try RotationCopy.removeLeftover(of: paths)
    }

    private func copyFrames(_ delta: WALDelta, _ view: PageSnapshot) throws {
        guard !delta.pages.isEmpty else { return }
        let start = ContinuousClock.now
        let pages = delta.pages
        let row = PageReencryption.Row.pages(pages.map(\.page))
        let pageBytes = pageBytes
        try perform {
            try reencryption.copy(
                row, acceptsZeroPages: acceptsZeroPages, flow: flow(nil),
                read: { places, buffer in
                    for place in places {
                        try view.readFrame(
                            pages[place].frame, into: buffer.page(place - places.lowerBound, pageBytes))
                    }
                },
                write: { [copy] places, buffer in
                    for place in places {
                        let page = UnsafeMutableRawBufferPointer(mutating: buffer).page(
                            place - places.lowerBound, pageBytes)
                        try copy.write(firstPage: pages[place].page, UnsafeRawBufferPointer(page))
                    }
                })
        }
        try perform {
            try reencryption.verify(row, flow: flow(nil)) { [copy] places, buffer in
                for place in places {
                    try copy.read(
                        firstPage: pages[place].page, into: buffer.page(place - places.lowerBound, pageBytes))
                }
            }
        }
        pageCost = (ContinuousClock.now - start) / pages.count
    }

    // MARK: Steps

    private func isAutoVacuum(_ view: PageSnapshot) throws -> Bool {
        let page = UnsafeMutableRawBufferPointer.allocate(byteCount: pageBytes, alignment: 16)
        defer { page.deallocate() }
        for _ in 0..<RotationLimits.rereads {
            try view.read(firstPage: 1, count: 1, into: page)
            do {
                return try reencryption.isAutoVacuum(firstPage: page)
            } catch is PageReencryptionError {
                Pause.sleep(for: RotationLimits.rereadPause)
            }
        }
        throw StoreError.damagedPage(paths.database, 1)
    }

    private func flow(_ throttle: Throttle?) -> PageReencryption.Flow {
        var flow = PageReencryption.Flow()
        flow.workers = workers
        flow.rereads = RotationLimits.rereads
        flow.pause = { Pause.sleep(for: RotationLimits.rereadPause) }
        flow.isCancelled = isCancelled
        if let throttle { flow.pace = { [isCancelled] in throttle.take($0, isCancelled: isCancelled) } }
        return flow
    }

    /// Runs a pass and converts its errors to those of a store.
    private func perform(_ pass: () throws -> Bool) throws {
        do {
            guard try pass() else { throw CancellationError() }
        } catch let error as PageReencryptionError {
            switch error {
            case .damaged(let page): throw StoreError.damagedPage(paths.database, page)
            case .differs(let page): throw StoreError.unfaithfulCopy(copy.path, page)
            }
        }
    }
}

extension DataKey {
    /// The page keys derived from this data key.
    func pageKeys(salt: Salt, settings: CipherSettings) throws -> PageKeys {
        try withSecret { try PageKeys(dataKey: $0, salt: salt.bytes, settings: settings) }
    }
}

extension UnsafeMutableRawBufferPointer {
    /// One of several consecutive pages.
    fileprivate func page(_ index: Int, _ pageBytes: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: self[index * pageBytes..<(index + 1) * pageBytes])
    }
}
