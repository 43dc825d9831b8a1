"""The churn, briefly: fewer clients, and the same choices each time."""

from tests.churn import churn


def test_nothing_is_lost_doubled_or_crossed_while_clients_servers_and_configurations_come_and_go() -> None:
    played = churn(3.0, seed=1, clients=25)
    assert not played.findings, "\n".join(played.findings[:20])
    assert played.counts["reloads"] > 0
    assert played.counts["answers"] > 100
