import CipherStore
import Foundation
import TestKit
import Testing

/// Backups while other processes write.
@Suite(.serialized) struct BackupProcessTests {
    let folder = TemporaryFolder()
    let seed = Seed()
    var path: String { folder.path("bank.db") }

    @Test("every backup under four writers is one moment of the store: no sum is wrong, and every page is authentic")
    func underWriters() throws {
        let founder = try ActorProcess()
        #expect(founder.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(founder.ask("bank-fill \(Bank.accounts) \(Bank.balance)") == "ok")
        let writers = try (0..<4).map { number in
            let writer = try ActorProcess()
            #expect(writer.ask("open \(path) raw")?.hasPrefix("ok") == true)
            #expect(writer.ask("bank-work \(folder.url.path) \(number) 0 \(seed.value) raw") == "ok")
            return writer
        }
        var moments: Set<Int> = []
        for number in 0..<5 {
            let bundle = folder.path("backup-\(number)")
            let answer = founder.ask("backup \(bundle)") ?? "died"
            #expect(answer.hasPrefix("ok "), "\(answer)")
            let restored = folder.path("restored-\(number).db")
            #expect(founder.ask("restore \(bundle) \(restored) raw")?.hasPrefix("ok ") == true)
            let problems = StoreProof.problems(restored) { db in
                let sum = try Int.fetchOne(db, sql: "SELECT SUM(balance) FROM account")
                moments.insert(try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM transfer") ?? 0)
                return sum == Bank.total ? [] : ["a sum of \(String(describing: sum))"]
            }
            #expect(problems.isEmpty, "\(seed) backup \(number): \(problems)")
        }
        for writer in writers { #expect(writer.ask("bank-end")?.hasPrefix("ok ") == true) }
        #expect(Bank(folder: folder.url.path).reports.isEmpty)
        // The backups were not all of the same moment.
        #expect(moments.count > 1)
    }

    @Test("a store is not replaced below a connection that has not read yet, and so holds no lock")
    func openUnread() throws {
        let peer = try ActorProcess()
        #expect(peer.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(peer.ask("mark 1") == "ok")
        #expect(peer.ask("backup \(folder.path("backup"))")?.hasPrefix("ok ") == true)
        #expect(peer.ask("stock-key") == "ok")
        #expect(peer.ask("stock-open \(path)") == "ok")
        let other = try ActorProcess()
        let refusal = other.ask("restore \(folder.path("backup")) \(path) raw replace") ?? "died"
        #expect(refusal.hasPrefix("error storeInUse"), "\(refusal)")
        #expect(refusal.contains("process \(peer.processIdentifier) (StoreActor"), "\(refusal)")
        #expect(peer.ask("stock-insert late") == "ok")
        #expect(peer.ask("stock-close") == "ok")
        #expect(other.ask("restore \(folder.path("backup")) \(path) raw replace")?.hasPrefix("ok ") == true)
        #expect(StoreProof.problems(path).isEmpty)
    }

    @Test("a store that another process has open is not replaced, and the process goes on")
    func openElsewhere() throws {
        let peer = try ActorProcess()
        #expect(peer.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(peer.ask("mark 1") == "ok")
        #expect(peer.ask("backup \(folder.path("backup"))")?.hasPrefix("ok ") == true)
        let other = try ActorProcess()
        let refusal = other.ask("restore \(folder.path("backup")) \(path) raw replace") ?? "died"
        #expect(refusal.hasPrefix("error storeInUse"), "\(refusal)")
        #expect(refusal.contains("\(peer.processIdentifier)"), "\(refusal)")
        #expect(peer.ask("mark 1") == "ok")
        #expect(peer.ask("close") == "ok")
        #expect(other.ask("restore \(folder.path("backup")) \(path) raw replace")?.hasPrefix("ok ") == true)
        #expect(StoreProof.problems(path).isEmpty)
    }

    // The descriptor that reads the database for a backup stays open. It once kept the space of each file that a
    // rotation replaced in use until the next backup.
    @Test("a process that once made a backup lets the former database go behind a rotation")
    func formerDatabase() throws {
        let (peer, rotator) = (try ActorProcess(), try ActorProcess())
        for process in [peer, rotator] { #expect(process.ask("open \(path) raw")?.hasPrefix("ok") == true) }
        #expect(peer.ask("backup \(folder.path("backup"))")?.hasPrefix("ok ") == true)
        #expect(rotator.ask("rotate")?.hasPrefix("ok ") == true)
        #expect(peer.ask("mark 1") == "ok")
        let descriptors = "/proc/\(peer.processIdentifier)/fd"
        #expect(
            waitUntil(within: .seconds(10)) {
                let numbers = (try? FileManager.default.contentsOfDirectory(atPath: descriptors)) ?? []
                let targets = numbers.compactMap {
                    try? FileManager.default.destinationOfSymbolicLink(atPath: "\(descriptors)/\($0)")
                }
                return !targets.isEmpty && !targets.contains { $0.hasSuffix("/bank.db (deleted)") }
            })
        #expect(peer.ask("mark 1") == "ok")
        #expect(peer.ask("check") == "ok ok")
    }

    @Test("a backup in a store that is suspended meanwhile ends with an error and leaves nothing, or is whole")
    func suspended() async throws {
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try await store.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
        await store.suspend()
        let bundle = folder.path("backup")
        #expect(throws: DatabaseError.self) { try store.backup(toFolder: bundle) }
        #expect(!FileManager.default.fileExists(atPath: bundle))
        store.resume()
        try store.backup(toFolder: bundle)
        try store.close()
    }
}
