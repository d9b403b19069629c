import CipherStore
import Foundation
import KeyCustody
import KeyRotation
import StorePlatform
import TestKit
import Testing

@testable import StoreTools

/// Story: a tool read the sidecar, derived keys from it, and read the pages of a file that a rotation had put in its
/// place meanwhile. `verify` called every page damaged, and `doctor` and `status` reported problems of healthy stores.
@Suite("Examining a store that a rotation gives another key meanwhile")
struct RotatedMeanwhileTests {
    private let fixture = ToolFixture()
    private let newKey = KeySource.rawKey([UInt8](repeating: 0x77, count: 32))

    /// Makes a store, and returns the sidecar of before a rotation of it.
    private func sidecarBeforeRotation(isDirect: Bool = false) throws -> AuthenticatedSidecar {
        var configuration = Configuration()
        configuration.keyScheme = isDirect ? .direct : .slots
        let store = try SharedStore.open(at: fixture.store, unlockedBy: fixture.source, configuration: configuration)
        defer { try? store.close() }
        try store.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)") }
        let before = try StoreOpening.sidecar(fixture.store, UnlockedKey(fixture.source)) { _ in }
        var options = KeyRotation.Options(mode: isDirect ? .newKey(newKey) : .newDataKey)
        options.checksIntegrity = false
        try KeyRotation(store, options: options).run()
        return before
    }

    @Test("its pages are not called damaged", arguments: [true, false])
    func verification(isDirect: Bool) throws {
        let former = try sidecarBeforeRotation(isDirect: isDirect)
        let tool = StoreVerification(fixture.store, unlockedBy: fixture.source)
        let error = #expect(throws: StoreError.self) { try tool.perform(ToolRun(), former) }
        #expect(error?.code == .keyRotated(from: 1, to: 2), "\(String(describing: error))")
    }

    @Test("its status is that of after the rotation")
    func status() throws {
        let former = try sidecarBeforeRotation()
        var report = try StoreStatus.Report(fixture.store)
        try report.authenticate(former)
        #expect(report.attention == [] && report.keys?.epoch == 2 && report.isAuthenticated)
    }

    @Test("the status of a direct store says that it has another key")
    func directStatus() throws {
        let former = try sidecarBeforeRotation(isDirect: true)
        var report = try StoreStatus.Report(fixture.store)
        let error = #expect(throws: StoreError.self) { try report.authenticate(former) }
        #expect(error?.code == .keyRotated(from: 1, to: 2), "\(String(describing: error))")
    }

    @Test("a page 1 that is damaged stays a problem after a rotation")
    func damaged() throws {
        _ = try sidecarBeforeRotation()
        try fixture.damage(page: 1)
        let report = try StoreStatus(fixture.store, unlockedBy: fixture.source).run()
        #expect(report.attention.contains { $0.contains("page 1 does not fit the key") })
        let verification = try StoreVerification(fixture.store, unlockedBy: fixture.source).run()
        #expect(verification.damagedPages.ranges == [1...1])
    }
}
