import FormerSimulation
import TestKit
import Testing

/// A few schedules of the simulation of which `make soak` runs many.
@Suite("Simulation of stores that sync")
struct SimulationTests {
    @Test(
        "stores that are killed, and whose remotes and disks fail, end with the same rows and every acknowledged commit",
        arguments: Plan.Kind.allCases)
    func schedules(kind: Plan.Kind) async throws {
        FormerSimulation.Simulation.prepare()
        var total = ScheduleSummary()
        for index in 0..<(Sweep.isWhole ? 10 : 3) {
            // Authors are random here, so the same number may go another way; the simulator repeats a schedule exactly.
            let plan = Plan(Int(Simulation.seed.value) * 10 + index, kind: kind)
            total += try await FormerSimulation.Simulation(plan).run()
        }
        #expect(total.steps > 0)
    }

    @Test("a schedule follows from its number, and a step means the same when others are left out")
    func plans() {
        let plan = Plan(4711)
        #expect(plan.description == Plan(4711).description)
        #expect(plan.steps.map { "\($0)" } == Plan(4711).steps.map { "\($0)" })
        #expect(Set((0..<20).map { Plan($0).description }).count == 20)
    }
}
