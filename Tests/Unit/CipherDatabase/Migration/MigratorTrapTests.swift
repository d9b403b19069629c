import CipherDatabase
import TestKit
import Testing

@Suite struct MigratorTrapTests {
    private func text(_ result: ExitTest.Result?) -> String {
        String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    }

    @Test("registering a name twice ends the program")
    func twice() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = MigrationScratch.logging("v1", "v1")
        }
        #expect(text(result).contains("Migration \"v1\" is registered already."))
    }

    @Test("migrating to a name that is not registered ends the program")
    func unknown() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            try MigrationScratch.logging("v1").migrate(DatabaseQueue(), upTo: "v2")
        }
        #expect(text(result).contains("Migration \"v2\" is not registered."))
    }

    @Test("migrating backwards ends the program")
    func backwards() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let queue = DatabaseQueue()
            try MigrationScratch.logging("v1", "v2").migrate(queue)
            try MigrationScratch.logging("v1", "v2").migrate(queue, upTo: "v1")
        }
        #expect(text(result).contains("The database is migrated beyond migration \"v1\" already."))
    }
}
